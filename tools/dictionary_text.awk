# The dictd text of the GNU Collaborative International Dictionary of English to plain text: one document for each
# entry, its lines joined to paragraphs, without preface, source tags, pronunciations and cross-reference braces. A line
# "%%" ends each document.
function end_paragraph() {
  if (paragraph != "") document = document paragraph "\n"
  paragraph = ""
}
function end_document() {
  end_paragraph()
  if (in_body && document != "") print document "%%"
  if (document ~ /Last edit /) in_body = 1
  document = ""
}
/^[^ ]/ && blank { end_document() }
/^ *$/ { end_paragraph(); blank = 1; next }
{ blank = 0 }
/^ *\[[^]]*\]$/ { next }
{
  gsub(/\\[^\\]*\\/, "")
  gsub(/ *\([^() ]*[\[*"`][^() ]*\)/, "")
  gsub(/[{}]/, "")
  gsub(/^ +| +$/, "")
  gsub(/  +/, " ")
  gsub(/ ,/, ",")
  paragraph = paragraph (paragraph == "" ? "" : " ") $0
}
END { end_document() }
