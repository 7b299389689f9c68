/* dump_json.c - a table and its filters, for programs: one object on one line. */
#include <inttypes.h>

#include "dump.h"

/* Bytes beyond ASCII are taken for Latin-1: any file name gives valid JSON. */
static void put_string(const char *text, FILE *to)
{
	putc('"', to);
	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte == '"' || byte == '\\')
			fprintf(to, "\\%c", byte);
		else if (byte < 0x20 || byte >= 0x7f)
			fprintf(to, "\\u%04x", byte);
		else
			putc(byte, to);
	}
	putc('"', to);
}

static void put_text(const char *name, const char *value, FILE *to)
{
	fprintf(to, "\"%s\":", name);
	put_string(value, to);
	putc(',', to);
}

static void put_number(const char *name, uint64_t value, FILE *to)
{
	fprintf(to, "\"%s\":%" PRIu64 ",", name, value);
}

static void put_bool(const char *name, bool value, FILE *to)
{
	fprintf(to, "\"%s\":%s,", name, value ? "true" : "false");
}

static void print_table(const struct dump *dump, FILE *to)
{
	const struct table *table = &dump->table;
	const struct properties *properties = &dump->properties;
	bool told = properties->present;

	put_text("engine", table->engine == TABLE_ROCKSDB ? "rocksdb" : "leveldb", to);
	put_number("format_version", table->format_version, to);
	put_text("checksum", table_checksum_name(table->checksum), to);
	put_number("entries", told ? properties->entries : dump->entries, to);
	put_number("data_blocks", told ? properties->data_blocks : dump->data_blocks, to);
	put_text("compression", properties->compression, to);
	put_text("comparator", properties->comparator, to);
	put_text("prefix_extractor", properties->prefix_extractor, to);
}

static void print_clusters(const struct filter_sum *sum, FILE *to)
{
	bool first = true;

	if (!sum->has_clusters) {
		fprintf(to, "\"clusters\":null,");
		return;
	}
	fprintf(to, "\"clusters\":{\"count\":%" PRIu64 ",\"longest\":%" PRIu64 ",\"lengths\":[",
		sum->clusters, sum->longest_cluster);
	for (unsigned class = 0; class < CLUSTER_CLASSES; class++) {
		if (sum->cluster_classes[class] == 0)
			continue;
		fprintf(to, "%s{\"from\":%" PRIu64 ",\"to\":%" PRIu64 ",\"count\":%" PRIu64 "}",
			first ? "" : ",", cluster_class_start(class), cluster_class_end(class),
			sum->cluster_classes[class]);
		first = false;
	}
	fprintf(to, "]},");
}

/* Names of letters, digits and underscores. */
static void print_facts(const struct filter_sum *sum, FILE *to)
{
	if (sum->fact_count == 0)
		return;
	fprintf(to, "\"facts\":{");
	for (unsigned i = 0; i < sum->fact_count; i++)
		fprintf(to, "%s\"%s\":{\"least\":%.6g,\"most\":%.6g}", i ? "," : "",
			sum->facts[i].name, sum->facts[i].least, sum->facts[i].most);
	fprintf(to, "},");
}

static void print_winnow(const struct filter_sum *sum, FILE *to)
{
	put_bool("small", sum->small, to);
	put_number("block_version", sum->version, to);
	put_number("remainder_bits", sum->remainder_bits, to);
	put_number("slots", sum->slots, to);
	put_number("used_slots", sum->used_slots, to);
	fprintf(to, "\"load\":%.6f,",
		sum->slots ? (double)sum->used_slots / (double)sum->slots : 0);
	put_number("extensions", sum->extensions, to);
	print_facts(sum, to);
	fprintf(to, "\"expected_fpr\":%.6g,\"secret_id\":\"%08x\",", sum->expected_fpr,
		sum->secret_id);
	if (sum->small ? sum->has_table_id : sum->count == 1) {
		fprintf(to, "\"%s\":\"", sum->small ? "table_id" : "id");
		for (size_t i = 0; i < sizeof(sum->id); i++)
			fprintf(to, "%02x", sum->id[i]);
		fprintf(to, "\",");
	}
	print_clusters(sum, to);
}

static void print_filter(const struct dump *dump, FILE *to)
{
	static const char *const layouts[] = { "none", "full", "partitioned", "blocks" };
	const struct filters *filters = &dump->filters;

	fprintf(to, "\"filter\":{");
	put_text("kind", dump_filter_kind(dump), to);
	put_bool("winnow", filters->sum.kind == FILTER_IS_WINNOW, to);
	put_text("layout", layouts[filters->layout], to);
	put_text("policy", filters->name, to);
	if (filters->sum.kind == FILTER_IS_BLOOM)
		put_number("probes", filters->sum.probes, to);
	if (filters->sum.kind == FILTER_IS_WINNOW)
		print_winnow(&filters->sum, to);
	put_number("offset", filters->handle.offset, to);
	put_number("filters", filters->sum.count, to);
	put_number("bytes", filters->sum.bytes, to);
	put_number("keys", dump_filter_keys(dump), to);
	fprintf(to, "\"bits_per_key\":%.4f},", dump_bits_per_key(dump));
}

static void print_checks(const struct dump *dump, FILE *to)
{
	put_number("blocks_checked", dump->table.blocks_checked, to);
	put_number("bytes_checked", dump->table.bytes_checked, to);
	put_number("blocks_not_read", dump->table.blocks_opaque, to);
	put_bool("walked", dump->walked, to);
	put_number("keys_asked", dump->keys_asked, to);
	put_number("prefixes_asked", dump->prefixes_asked, to);
	put_number("denied", dump->denied, to);
	put_text("not_asked", dump->unasked ? dump->unasked : "", to);
}

void dump_print_json(const struct dump *dump, const char *path, FILE *to)
{
	const struct problems *problems = &dump->problems;
	size_t kept = problems->count < MAX_PROBLEMS ? problems->count : MAX_PROBLEMS;

	putc('{', to);
	put_text("file", path, to);
	put_number("size", dump->table.file.size, to);
	put_bool("table", dump->is_table, to);
	if (dump->is_table) {
		print_table(dump, to);
		print_filter(dump, to);
		print_checks(dump, to);
	}
	put_bool("ok", problems->count == 0, to);
	put_number("problem_count", problems->count, to);
	fprintf(to, "\"problems\":[");
	for (size_t i = 0; i < kept; i++) {
		fprintf(to, "%s{\"offset\":%" PRIu64 ",\"what\":", i ? "," : "",
			problems->list[i].offset);
		put_string(problems->list[i].text, to);
		putc('}', to);
	}
	fprintf(to, "]}\n");
}
