# functions.awk - the functions in the SYNOPSIS of manual pages: file, name, prototype, a line each.
# make install makes an alias for each of them, scripts/lint compares them with the headers.

function tidy(text) {
	gsub(/[ \t\n]+/, " ", text)
	gsub(/ ?\* ?/, "*", text)
	gsub(/ ?, ?/, ", ", text)
	gsub(/^ | $/, "", text)
	return text
}

# The words of a macro's line, of which those in quotes are one.
function split_line(line, words,   count, word) {
	count = 0
	while (line != "") {
		sub(/^ +/, "", line)
		if (substr(line, 1, 1) == "\"") {
			line = substr(line, 2)
			word = substr(line, 1, index(line, "\"") - 1)
			line = substr(line, length(word) + 2)
		} else {
			word = line
			sub(/ .*/, "", word)
			line = substr(line, length(word) + 1)
		}
		if (word != "")
			words[++count] = word
	}
	return count
}

function found(name, arguments) {
	print FILENAME, name, tidy(type " " name "(" arguments ")")
}

FNR == 1 { synopsis = 0; name = "" }
/^\.Sh/ { synopsis = $2 == "SYNOPSIS" }
!synopsis { next }
/^\.Ft/ {
	split_line(substr($0, 5), words)
	type = words[1]
}
/^\.Fn/ {
	count = split_line(substr($0, 5), words)
	arguments = words[2]
	for (i = 3; i <= count; i++)
		arguments = arguments ", " words[i]
	found(words[1], arguments)
}
/^\.Fo/ {
	name = $2
	arguments = ""
}
/^\.Fa/ {
	count = split_line(substr($0, 5), words)
	for (i = 1; i <= count; i++)
		arguments = arguments (arguments == "" ? "" : ", ") words[i]
}
/^\.Fc/ { found(name, arguments) }
