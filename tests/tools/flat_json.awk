# flat_json.awk - read JSON objects that hold texts, numbers, true and false, one on each
# line, and print "LINE NAME VALUE" for each member. Anything else ends it with status 1.

function stop(why)
{
	print "line " NR ": " why ": " substr(rest, 1, 60)
	bad = 1
	exit 1
}

function take(pattern,    taken)
{
	if (!match(rest, "^" pattern))
		stop("expected " pattern)
	taken = substr(rest, 1, RLENGTH)
	rest = substr(rest, RLENGTH + 1)
	return taken
}

{
	rest = $0
	take("[{]")
	for (;;) {
		name = take("\"[a-z0-9_]+\"")
		take(":")
		if (substr(rest, 1, 1) == "\"")
			value = take("\"([^\"\\\\]|\\\\.)*\"")
		else if (substr(rest, 1, 1) ~ /[tf]/)
			value = take("(true|false)")
		else
			value = take("-?(0|[1-9][0-9]*)(\\.[0-9]+)?")
		gsub(/"/, "", name)
		gsub(/"/, "", value)
		if ((NR, name) in seen)
			stop("twice: " name)
		seen[NR, name] = 1
		print NR, name, value
		if (substr(rest, 1, 1) != ",")
			break
		take(",")
	}
	take("[}]$")
}
