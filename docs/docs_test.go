// Package docs_test compares the documents with each other and with the sources.
package docs_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
)

const root = ".."

// files returns the files below the root with one of these endings, with their text, but not those in hidden directories or in a
// release.
func files(t *testing.T, endings ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || path == filepath.Join(root, "dist")) {
			return fs.SkipDir
		}
		if d.IsDir() || !slices.Contains(endings, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	})
	must.Succeed(t, err)
	return found
}

// lines returns the lines of a text that contain a word: a regular expression that begins with nothing fixed is slow on all
// sources.
func lines(text, word string) string {
	var with strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			with.WriteString(line)
		}
	}
	return with.String()
}

// production leaves out tests and the embedded vCenter.
func production(sources map[string]string) map[string]string {
	for path := range sources {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "vcsim") {
			delete(sources, path)
		}
	}
	return sources
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Succeed(t, err)
	return string(text)
}

var (
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unlinked = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	marked   = regexp.MustCompile(`<a id="([^"]*)"></a>(?:\x60?(\w+))?`)
)

var (
	pasted  = regexp.MustCompile("(?ms)^ *```(?:sh|console)\n(.*?)^ *```|^    +(?:make|kubectl|helm|git|govc|curl|cosign|crane|mkdir|sha256sum|bin/vmgroup|vmgroup) [^\n]*")
	heredoc = regexp.MustCompile(`(?ms)<<'?END'?\n.*?^ *END$`)
	comment = regexp.MustCompile(`(?m)(?:^|\s)#(?: .*|$)`)
)

// In an interactive zsh, which is the shell of macOS, a # begins no comment: the words after it are arguments.
func TestNoCommandThatUsersPasteHasAComment(t *testing.T) {
	seen := 0
	for path, page := range files(t, ".md") {
		for _, m := range pasted.FindAllString(page, -1) {
			seen++
			for _, c := range comment.FindAllString(heredoc.ReplaceAllString(m, ""), -1) {
				t.Errorf("%s: the comment %q is for the text above the commands", path, strings.TrimSpace(c))
			}
		}
	}
	if seen < 50 {
		t.Fatalf("found only %d blocks of commands", seen)
	}
}

// anchors are those that GitHub gives to the headings of a page, and those in the page itself.
func anchors(page string) (all []string) {
	for _, m := range marked.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		all = append(all, strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

func TestEveryLinkBetweenTheDocumentsResolves(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	seen := 0
	for path, page := range files(t, ".md") {
		for _, l := range link.FindAllStringSubmatch(page, -1) {
			target, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(target, "://") { // not requested
				if u, err := url.Parse(l[1]); err != nil || u.Scheme != "https" || !strings.Contains(u.Host, ".") {
					t.Errorf("%s: the link %s is not https: %v", path, l[1], err)
				}
				continue
			}
			seen++
			to := filepath.Join(filepath.Dir(path), target)
			if target == "" {
				to = path
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: the link %s: %v", path, l[1], err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s: the link %s: %s has no such heading", path, l[1], to)
			}
		}
	}
	if seen < 100 {
		t.Fatalf("found only %d links", seen)
	}
}

// Messages and comments point to a document by its path from the root, and to a passage by its words in quotation marks.
func TestEveryDocumentAndPassageThatTheSourcesNameExists(t *testing.T) {
	named := regexp.MustCompile(`\b((?:docs|manifests)/[\w./-]+\.md)(?:#([\w-]+))?(?:, \\?"([^"\\\n]+)\\?")?`)
	seen := 0
	for path, text := range files(t, ".go", ".yaml", ".env", ".md") {
		for _, n := range named.FindAllStringSubmatch(lines(text, ".md"), -1) {
			page, err := os.ReadFile(filepath.Join(root, n[1]))
			if err != nil {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), n[1])); err != nil {
					t.Errorf("%s names %s: %v", path, n[1], err)
				}
				continue
			}
			seen++
			if n[2] != "" && !slices.Contains(anchors(string(page)), n[2]) {
				t.Errorf("%s names %s#%s, but there is no such heading", path, n[1], n[2])
			}
			if !strings.Contains(string(page), n[3]) {
				t.Errorf("%s names %s, but it doesn't contain %q", path, n[1], n[3])
			}
		}
	}
	if seen < 20 {
		t.Fatalf("found only %d names of documents", seen)
	}
}

func TestEveryTestThatTheDocumentsNameExists(t *testing.T) {
	var sources strings.Builder
	for _, text := range files(t, ".go") {
		sources.WriteString(text)
	}
	seen, pages := 0, files(t, ".md")
	for path, page := range pages {
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(page, -1) {
			seen++
			if !strings.Contains(sources.String(), "\nfunc "+name+"(") {
				t.Errorf("%s: %s doesn't exist", path, name)
			}
		}
	}
	if seen < 100 {
		t.Fatalf("found only %d names of tests", seen)
	}
}

func TestEveryConditionIsSetAndInTheReference(t *testing.T) {
	conditions := regexp.MustCompile(`(?m)^\t(Condition\w+) += "(\w+)"`).FindAllStringSubmatch(read(t, "../api/v1alpha1/conditions.go"), -1)
	if len(conditions) < 10 {
		t.Fatalf("found only %d conditions", len(conditions))
	}
	reference, planner := read(t, "reference.md"), ""
	for path, text := range production(files(t, ".go")) {
		if strings.Contains(filepath.ToSlash(path), "/sync/planner/") {
			planner += text
		}
	}
	for _, c := range conditions {
		if !strings.Contains(reference, "\n| "+c[2]+" |") {
			t.Errorf("reference.md has no row for the condition %s", c[2])
		}
		if !regexp.MustCompile(`\bv1alpha1\.` + c[1] + `\b`).MatchString(planner) {
			t.Errorf("sync/planner never sets the condition %s", c[2])
		}
	}
}

// A message that needs a person names the anchor of its reason (plan.Help), and so do alerts.
func TestEveryConditionAndReasonHasAnAnchorInTroubleshooting(t *testing.T) {
	page := read(t, "troubleshooting.md")
	all := anchors(page)
	known := map[string]bool{}
	for i, a := range all {
		if slices.Contains(all[:i], a) {
			t.Errorf("troubleshooting.md has the anchor %s twice", a)
		}
		known["docs/troubleshooting.md#"+a] = true
	}
	for _, m := range marked.FindAllStringSubmatch(page, -1) {
		if strings.TrimSuffix(m[1], "-deleted") != strings.ToLower(m[2]) { // what to do for a group that is being deleted
			t.Errorf("the anchor %s is before %q", m[1], m[2])
		}
	}
	reason := regexp.MustCompile(`(?m)^(?:const)?\s+(?:[Rr]eason|Condition)\w+ += "(\w+)"|\bReason: +"(\w+)"`)
	seen := 0
	for path, text := range production(files(t, ".go")) {
		for _, r := range reason.FindAllStringSubmatch(lines(text, "\""), -1) {
			seen++
			if name := r[1] + r[2]; !known[plan.Help(name)] {
				t.Errorf("%s: troubleshooting.md has no anchor for %s", path, name)
			}
		}
	}
	if seen < 130 {
		t.Fatalf("found only %d conditions and reasons", seen)
	}
	for _, name := range plan.SiteReasons() { // the alert about the site has no more than the reason
		if !known[plan.Help(name)] {
			t.Errorf("sync/plan/trouble.go: troubleshooting.md has no anchor for %s", name)
		}
	}
}

func TestEveryAlertLinksToItsSectionInTroubleshooting(t *testing.T) {
	all := anchors(read(t, "troubleshooting.md"))
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)`)
	links := regexp.MustCompile(`(?m)^ +runbook_url: https://github\.com/OWNER/vmgroup/blob/main/docs/troubleshooting\.md#(\w+)$`)
	seen := 0
	for path, text := range files(t, ".yaml") {
		names, urls := alerts.FindAllStringSubmatch(text, -1), links.FindAllStringSubmatch(text, -1)
		if len(names) == 0 {
			continue
		}
		if len(names) != len(urls) {
			t.Errorf("%s: %d alerts and %d links", path, len(names), len(urls))
			continue
		}
		for i, name := range names {
			if seen++; urls[i][1] != strings.ToLower(name[1]) || !slices.Contains(all, urls[i][1]) {
				t.Errorf("%s: the alert %s links to %s", path, name[1], urls[i][1])
			}
		}
	}
	if seen < 5 {
		t.Fatalf("found only %d alerts", seen)
	}
}

// metacontrollers are messages of Metacontroller that troubleshooting.md quotes.
var metacontrollers = []string{"secrets is forbidden", "unsupported status code: 401"}

// The first cell of a row quotes the server's messages; N stands for a number.
func TestTheServerHasEveryMessageInTroubleshooting(t *testing.T) {
	var sources strings.Builder
	for _, text := range production(files(t, ".go")) {
		sources.WriteString(text)
	}
	seen := 0
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \|`).FindAllStringSubmatch(read(t, "troubleshooting.md"), -1) {
		for _, m := range regexp.MustCompile("`([a-z][^` ]* [^`]* [^`]*)`").FindAllStringSubmatch(row[1], -1) {
			if slices.Contains(metacontrollers, m[1]) {
				continue
			}
			seen++
			if !strings.Contains(sources.String(), strings.TrimSuffix(m[1], " N")) {
				t.Errorf("the server never says %q", m[1])
			}
		}
	}
	if seen < 4 {
		t.Fatalf("found only %d quoted messages", seen)
	}
}

// A newcomer follows "Where to start": each file, test and function that a row names must exist, and the functions in a file of
// that row.
func TestWhereToStartNamesOnlyWhatExists(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "design.md"), "\n## Where to start\n")
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.ReplaceAll(section, "\n   ", " ") // an item of a list
	sources := files(t, ".go")
	rows := 0
	for row := range strings.Lines(section) {
		var named string // the text of the row's files
		var words []string
		for _, w := range regexp.MustCompile("`([^` ]+)`").FindAllStringSubmatch(row, -1) {
			found, err := filepath.Glob(filepath.Join(root, w[1]))
			switch {
			case err != nil:
				t.Fatal(err)
			case len(found) > 0:
				rows++
				named += sources[found[0]]
			case strings.Contains(w[1], "/"):
				t.Errorf("%s doesn't exist", w[1])
			default:
				words = append(words, w[1])
			}
		}
		for _, word := range words {
			if strings.HasPrefix(word, "Test") {
				if !slices.ContainsFunc(slices.Collect(maps.Values(sources)), func(text string) bool { return strings.Contains(text, "func "+word+"(") }) {
					t.Errorf("the test %s doesn't exist", word)
				}
			} else if !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|var |const |\t)` + word + `\b`).MatchString(named) {
				t.Errorf("%s is declared in no file that its row names: %.60s", word, row)
			}
		}
	}
	if rows < 20 {
		t.Fatalf("found only %d names of files", rows)
	}
}

// govc reads the extension from JSON as this does.
func TestTheExtensionThatTheReferenceRegistersIsTheOneThatMembersName(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "reference.md"), "govc extension.register <<'END'\n")
	text, _, _ = strings.Cut(text, "\nEND\n")
	e := types.Extension{Description: new(types.Description)}
	must.Succeed(t, json.Unmarshal([]byte(text), &e))
	if e.Key != role.ExtensionKey || e.Version == "" || e.Description.GetDescription().Label == "" || len(e.ManagedEntityInfo) != 1 || e.ManagedEntityInfo[0].Type != "vm" {
		t.Errorf("reference.md registers the extension %+v; want %s with a version, a label and the managed type vm", e, role.ExtensionKey)
	}
	if !strings.Contains(read(t, "reference.md"), "govc extension.unregister "+role.ExtensionKey+"`") {
		t.Errorf("reference.md does not unregister the extension %s", role.ExtensionKey)
	}
}
