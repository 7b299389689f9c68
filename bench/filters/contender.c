/* contender.c - which filters take part. */
#include "contender.h"

#include <string.h>

#include <winnow/filter.h>

static struct wn_config *parse(const char *text)
{
	char message[200] = "";
	struct wn_config *config;

	if (text == NULL)
		return NULL;
	if (wn_config_parse(text, message, sizeof(message), &config) != 0)
		bench_die("'%s': %s", text, message);
	return config;
}

static struct contender *add(const struct job *job, struct contender_list *list, const char *word,
			     const struct contender_type *type)
{
	struct contender *contender = &list->all[list->count];

	if (!bench_listed(job->against, word))
		return NULL;
	*contender = (struct contender){ .word = word, .type = type };
	list->count++;
	return contender;
}

static void add_winnow(const struct job *job, struct contender_list *list)
{
	list->all[list->count++] = (struct contender){
		.name = "winnow",
		.type = &contender_winnow,
		.config = parse(job->filter),
		.is_mainly = true,
	};
}

/* `bits` 0: as many as winnow's block has; set when that is made. */
static void add_bloom(const struct job *job, struct contender_list *list, const char *word,
		      double bits)
{
	struct contender *contender = add(job, list, word, &contender_bloom);

	if (contender == NULL)
		return;
	if (bits > 0)
		snprintf(contender->name, sizeof(contender->name), "Bloom %.4g", bits);
	else
		snprintf(contender->name, sizeof(contender->name), "Bloom, equal bits");
	contender->bits = bits;
	contender->is_mainly = true;
}

static void add_ribbon(const struct job *job, struct contender_list *list)
{
	struct contender *contender = add(job, list, "ribbon", &contender_ribbon);

	if (contender == NULL)
		return;
	strcpy(contender->name, "Ribbon");
	contender->bits = job->ribbon_bits;
}

static void add_fuse(const struct job *job, struct contender_list *list, const char *word,
		     unsigned width)
{
	struct contender *contender = add(job, list, word, &contender_fuse);

	if (contender == NULL)
		return;
	snprintf(contender->name, sizeof(contender->name), "binary fuse, %u bits", width);
	contender->width = width;
}

static void add_slots(const struct job *job, struct contender_list *list)
{
	struct contender *contender = add(job, list, "slots", &contender_winnow);
	char text[80];

	if (contender == NULL)
		return;
	snprintf(text, sizeof(text), "aqf:remainder_bits=%llu;load=%.4f",
		 (unsigned long long)job->remainder_bits, job->load);
	strcpy(contender->name, "winnow, slots");
	contender->config = parse(text);
}

void contenders_init(const struct job *job, struct contender_list *list)
{
	list->count = 0;
	add_winnow(job, list);
	if (job->with_rocksdb) {
		add_bloom(job, list, "bloom", job->bloom_bits);
		add_bloom(job, list, "bloom_equal", 0);
		add_ribbon(job, list);
	}
	add_fuse(job, list, "fuse8", 8);
	add_fuse(job, list, "fuse9", 9);
	add_slots(job, list);
}

void contenders_fini(struct contender_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		wn_config_destroy(list->all[i].config);
}
