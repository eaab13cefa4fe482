# One long text to documents: a document ends at the first blank line after 40 lines, with a line "%%".
{ sub(/\r$/, "") }
/^ *$/ && lines >= 40 { print "%%"; lines = 0; next }
{ print; lines++ }
END { if (lines) print "%%" }
