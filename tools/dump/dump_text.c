/* dump_text.c - a table and its filters, for people. */
#include <inttypes.h>

#include "tools/sst/decompress.h"
#include "dump.h"

/* Names come from the file: nothing in them may reach the terminal as a command. */
static void put_safely(const char *text, FILE *to)
{
	for (; *text; text++)
		if ((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7f)
			putc(*text, to);
		else
			fprintf(to, "\\x%02x", (unsigned char)*text);
}

static void put_label(const char *label, FILE *to)
{
	fprintf(to, "%-14s", label);
}

static void put_count(const char *label, uint64_t count, FILE *to)
{
	put_label(label, to);
	fprintf(to, "%" PRIu64 "\n", count);
}

static void print_table(const struct dump *dump, FILE *to)
{
	const struct table *table = &dump->table;
	const struct properties *properties = &dump->properties;

	put_label("table", to);
	if (table->engine == TABLE_ROCKSDB)
		fprintf(to, "RocksDB, block-based, format %u, ", table->format_version);
	else
		fprintf(to, "LevelDB, ");
	fprintf(to, "checksums by %s, %zu bytes\n", table_checksum_name(table->checksum),
		table->file.size);
	if (properties->present) {
		put_label("entries", to);
		fprintf(to, "%" PRIu64 " in %" PRIu64 " data blocks", properties->entries,
			properties->data_blocks);
		if (properties->deletions || properties->merges)
			fprintf(to, ", %" PRIu64 " deletions, %" PRIu64 " merges",
				properties->deletions, properties->merges);
		fprintf(to, "\n");
	} else if (dump->walked) {
		put_label("entries", to);
		fprintf(to, "%" PRIu64 " in %" PRIu64 " data blocks\n", dump->entries,
			dump->data_blocks);
	}
	if (*properties->compression) {
		put_label("compression", to);
		put_safely(properties->compression, to);
		fprintf(to, "\n");
	} else if (dump->walked) {
		put_label("compression", to);
		for (unsigned method = 0, first = 1; method < 64; method++)
			if (dump->compressions >> method & 1) {
				fprintf(to, "%s%s", first ? "" : ", ", compression_name(method));
				first = 0;
			}
		fprintf(to, "\n");
	}
}

static void print_kind(const struct dump *dump, FILE *to)
{
	const struct filters *filters = &dump->filters;
	const struct filter_sum *sum = &filters->sum;

	put_label("filter", to);
	switch (sum->kind) {
	case FILTER_IS_WINNOW:
		fprintf(to, "winnow %s", sum->name);
		break;
	case FILTER_IS_BLOOM:
		fprintf(to, "stock Bloom filter of %u probes", sum->probes);
		break;
	case FILTER_IS_RIBBON:
		fprintf(to, "stock Ribbon filter");
		break;
	case FILTER_IS_TRUE:
		fprintf(to, "stock filter that says maybe to every key");
		break;
	case FILTER_IS_OTHER:
		fprintf(to, "of a policy not known here");
		break;
	case FILTER_IS_NONE:
		fprintf(to, sum->refused ? "damaged" : sum->empty ? "empty" : "none");
	}
	if (filters->layout == LAYOUT_PARTITIONED)
		fprintf(to, ", %zu partitions", filters->count);
	else if (filters->layout == LAYOUT_BLOCKS)
		fprintf(to, ", %" PRIu64 " filters, each for data blocks within %" PRIu64 " bytes",
			sum->count, UINT64_C(1) << filters->base_lg);
	fprintf(to, "\n");
	if (filters->layout == LAYOUT_NONE)
		return;
	put_label("policy", to);
	put_safely(filters->name, to);
	if (*dump->properties.filter_policy &&
	    strcmp(dump->properties.filter_policy, filters->name) != 0) {
		fprintf(to, " (");
		put_safely(dump->properties.filter_policy, to);
		fprintf(to, ")");
	}
	fprintf(to, "\n");
}

static void print_size(const struct dump *dump, FILE *to)
{
	const struct filters *filters = &dump->filters;

	if (filters->layout == LAYOUT_NONE)
		return;
	put_label("filter bytes", to);
	fprintf(to, "%" PRIu64 ", from offset %" PRIu64 "\n", filters->sum.bytes,
		filters->layout == LAYOUT_PARTITIONED && filters->count > 0
			? filters->parts[0].block.offset
			: filters->handle.offset);
	if (dump_filter_keys(dump) == 0)
		return;
	put_count("keys", dump_filter_keys(dump), to);
	put_label("bits per key", to);
	fprintf(to, "%.2f\n", dump_bits_per_key(dump));
}

static void print_clusters(const struct filter_sum *sum, FILE *to)
{
	put_label("clusters", to);
	if (!sum->has_clusters) {
		fprintf(to, "this kind of filter has none\n");
		return;
	}
	fprintf(to, "%" PRIu64 ", the longest of %" PRIu64 " slots\n", sum->clusters,
		sum->longest_cluster);
	for (unsigned class = 0; class < CLUSTER_CLASSES; class++) {
		uint64_t count = sum->cluster_classes[class];
		char range[48];
		int width;

		if (count == 0)
			continue;
		if (cluster_class_start(class) == cluster_class_end(class))
			snprintf(range, sizeof(range), "%" PRIu64, cluster_class_end(class));
		else
			snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64,
				 cluster_class_start(class), cluster_class_end(class));
		width = (int)((double)count / (double)sum->clusters * 40 + 0.999);
		fprintf(to, "  %12s%12" PRIu64 "  %.*s\n", range, count, width,
			"########################################");
	}
}

static void print_facts(const struct filter_sum *sum, FILE *to)
{
	if (sum->slots > 0) {
		put_label("slots", to);
		fprintf(to, "%" PRIu64 ", %" PRIu64 " in use, load %.4f\n", sum->slots,
			sum->used_slots, (double)sum->used_slots / (double)sum->slots);
		put_label("extensions", to);
		fprintf(to, "%" PRIu64 ", learned before the table was written\n",
			sum->extensions);
	}
	for (unsigned i = 0; i < sum->fact_count; i++) {
		const struct fact_sum *fact = &sum->facts[i];

		put_label(fact->name, to);
		fprintf(to, "%.6g", fact->least);
		if (fact->most > fact->least)
			fprintf(to, " to %.6g", fact->most);
		fprintf(to, "\n");
	}
}

static void print_id(const struct filter_sum *sum, FILE *to)
{
	put_label(sum->small ? "table id" : "filter id", to);
	if (sum->small ? sum->has_table_id : sum->count == 1)
		for (size_t i = 0; i < sizeof(sum->id); i++)
			fprintf(to, "%02x", sum->id[i]);
	else
		fprintf(to, sum->small ? "none" : "one for each filter");
	fprintf(to, "\n");
}

static void print_winnow(const struct dump *dump, FILE *to)
{
	const struct filter_sum *sum = &dump->filters.sum;

	if (sum->kind != FILTER_IS_WINNOW || sum->described == 0)
		return;
	put_label("parameters", to);
	if (sum->remainder_bits > 0)
		fprintf(to, "remainder bits %u, ", sum->remainder_bits);
	if (sum->small)
		fprintf(to, "small form\n");
	else
		fprintf(to, "block version %u\n", sum->version);
	print_facts(sum, to);
	put_label("expected", to);
	fprintf(to, "%.3g false positives a query, before learning more\n", sum->expected_fpr);
	print_id(sum, to);
	put_label("secret", to);
	fprintf(to, sum->small ? "short id %05x%s\n" : "short id %08x%s\n", sum->secret_id,
		sum->without_secret ? ", not given" : "");
	print_clusters(sum, to);
}

static void print_checks(const struct dump *dump, FILE *to)
{
	const struct table *table = &dump->table;

	put_label("checked", to);
	fprintf(to, "%" PRIu64 " blocks, %" PRIu64 " bytes", table->blocks_checked,
		table->bytes_checked);
	if (table->bytes_checked == table->footer_at)
		fprintf(to, ": every byte before the footer\n");
	else
		fprintf(to, "%s\n", dump->walked ? "" : "; data blocks are left to --verify");
	if (table->checksum == CHECKSUM_NONE)
		fprintf(to, "%-14sthe table has no checksums: damage may not show\n", "");
	if (table->blocks_opaque > 0)
		fprintf(to, "%-14s%" PRIu64 " blocks by their checksums only: they are compressed "
			"in a way that cannot be read here\n", "", table->blocks_opaque);
	if (!dump->walked)
		return;
	put_label("asked", to);
	fprintf(to, "%" PRIu64 " keys", dump->keys_asked);
	if (dump->prefixes_asked)
		fprintf(to, ", %" PRIu64 " prefixes", dump->prefixes_asked);
	fprintf(to, ", %" PRIu64 " denied", dump->denied);
	if (dump->unasked)
		fprintf(to, "; %s", dump->unasked);
	fprintf(to, "\n");
}

static void print_problems(const struct problems *problems, FILE *to)
{
	size_t kept = problems->count < MAX_PROBLEMS ? problems->count : MAX_PROBLEMS;

	put_label("verdict", to);
	if (problems->count == 0) {
		fprintf(to, "good\n");
		return;
	}
	fprintf(to, "DAMAGED, in %zu place%s\n", problems->count, problems->count == 1 ? "" : "s");
	for (size_t i = 0; i < kept; i++)
		fprintf(to, "  offset %" PRIu64 ": %s\n", problems->list[i].offset,
			problems->list[i].text);
	if (problems->count > kept)
		fprintf(to, "  and %zu more\n", problems->count - kept);
}

void dump_print_text(const struct dump *dump, const char *path, FILE *to)
{
	put_label("file", to);
	put_safely(path, to);
	fprintf(to, "\n");
	if (dump->is_table) {
		print_table(dump, to);
		print_kind(dump, to);
		print_size(dump, to);
		print_winnow(dump, to);
		print_checks(dump, to);
	}
	print_problems(&dump->problems, to);
}
