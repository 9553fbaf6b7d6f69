package recorded

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/soap"
)

// Exchange is a call and its answer in a recording of "vmgroup check --record".
type Exchange struct {
	Number  int
	Section string // the name of the check or experiment
	Name    string // the SOAP method, or the method and path of a REST call
	Status  int    // the HTTP status; 0 if there was no answer
	Request string
	Answer  string
}

var heading = regexp.MustCompile(`^### (\d+) (.+) (\d+), \d+ ms(?:, as (\d+))?$`)

// Exchanges parses a recording.
func Exchanges(t testing.TB, text string) (all []Exchange) {
	t.Helper()
	section := ""
	var body *strings.Builder
	for line := range strings.Lines(text) {
		bare := strings.TrimSuffix(line, "\n")
		if name, is := strings.CutPrefix(bare, "## "); is {
			section = name
			continue
		}
		if parts := heading.FindStringSubmatch(bare); parts != nil {
			number, _ := strconv.Atoi(parts[1])
			status, _ := strconv.Atoi(parts[3])
			x := Exchange{Number: number, Section: section, Name: parts[2], Status: status}
			if as, _ := strconv.Atoi(parts[4]); as > 0 {
				if as > len(all) || all[as-1].Number != as {
					t.Fatalf("exchange %d repeats exchange %d, which the recording does not have", number, as)
				}
				x.Request, x.Answer = all[as-1].Request, all[as-1].Answer
			}
			all, body = append(all, x), new(strings.Builder)
			continue
		}
		if body == nil {
			continue
		}
		x := &all[len(all)-1]
		if bare == "---" {
			x.Request = body.String()
			body.Reset()
			continue
		}
		body.WriteString(line)
		if x.Request != "" && bare != "" {
			x.Answer = body.String()
		}
	}
	return all
}

// Decode decodes a SOAP answer into a value of govmomi's type.
func (x *Exchange) Decode(into any) error {
	text := x.Answer
	if !strings.Contains(text, "Envelope") {
		text = `<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="` +
			xsi + `"><soapenv:Body>` + text + `</soapenv:Body></soapenv:Envelope>`
	}
	if err := decoder([]byte(text)).Decode(&soap.Envelope{Body: into}); err != nil {
		return fmt.Errorf("exchange %d, %s: %w", x.Number, x.Name, err)
	}
	return nil
}

// Published returns the pieces that are answers to reads and streams, as exchanges.
func Published(t testing.TB) (all []Exchange) {
	t.Helper()
	for name, files := range map[string][]string{
		"RetrievePropertiesEx": {"manageiq/vcenter-5.5-read/2-RetrievePropertiesEx-page1-of-2.xml", "manageiq/vcenter-5.5-read/4-RetrievePropertiesEx-four-vms.xml"},
		"WaitForUpdatesEx":     {"manageiq/vcenter-5.5-stream/2-WaitForUpdatesEx-page1-of-2.xml", "manageiq/vcenter-5.5-stream/3-WaitForUpdatesEx-page2-of-2.xml"},
	} {
		for _, file := range files {
			all = append(all, Exchange{Section: file, Name: name, Status: 200, Answer: string(Piece(t, file))})
		}
	}
	return all
}
