package recorded

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// evidence is what the source of a row has, by how the row is known.
var evidence = map[string]*regexp.Regexp{
	"documented": regexp.MustCompile(`\S`),
	"recorded":   regexp.MustCompile(`recorded`),
	"reported":   regexp.MustCompile(`#\d+|oslo\.vmware`),
	"guessed":    regexp.MustCompile(`simulator|no source`),
}

// A row is as sure as its least certain part, and the page counts its rows.
func TestTheDocumentSaysOfEachBeliefHowItIsKnownAndCountsThem(t *testing.T) {
	text, err := os.ReadFile("../../../docs/vcenter.md")
	if err != nil {
		t.Fatal(err)
	}
	count, rows := map[string]int{}, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || cells[1] == "known" {
			continue
		}
		if len(cells) != 5 || evidence[cells[1]] == nil {
			t.Errorf("a row has the cells belief, known, source, shown by, otherwise: %s", line)
			continue
		}
		rows++
		count[cells[1]]++
		if !evidence[cells[1]].MatchString(cells[2]) {
			t.Errorf("%s is no source of what is %s: %s", cells[2], cells[1], cells[0])
		}
		if cells[1] != "guessed" && evidence["guessed"].MatchString(strings.ReplaceAll(cells[2], "simulator's", "")) {
			t.Errorf("a part without a source is guessed: %s", cells[0])
		}
	}
	want := fmt.Sprintf("Of %d rows, %d are documented, %d recorded, %d reported and %d guessed.", rows, count["documented"], count["recorded"], count["reported"], count["guessed"])
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
		t.Errorf("docs/vcenter.md does not say: %s", want)
	}
}

// A recording is held against rows that exist.
func TestEveryBeliefOfARecordingIsARowOfTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/vcenter.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range Rows() {
		if !strings.Contains(string(text), "\n| "+row) {
			t.Errorf("no row begins with %q", row)
		}
	}
}
