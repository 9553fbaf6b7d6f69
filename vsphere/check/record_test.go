package check

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest/recorded"
)

// recordedCheck records a deep check over HTTP, as "check --record" does.
func (w *world) recordedCheck(change ...func(*Options)) string {
	w.t.Helper()
	o := Options{Deep: true, Templates: []string{"ubuntu"}}
	for _, f := range change {
		f(&o)
	}
	var file bytes.Buffer
	r := NewRecorder(&file)
	o.Begin = r.Section
	found := w.checked(func(cfg *vsphere.Config) { cfg.Wire, cfg.Through = r.Wire, nil }, o)
	if len(found.all) < 20 {
		w.t.Fatalf("the check ended early:\n%s", found)
	}
	w.Must(r.Err())
	return file.String()
}

// ofVM is the path of a VM's configuration file.
var ofVM = regexp.MustCompile(`\[text-\d+\] (text-\d+)/(text-\d+)\.vmx`)

func TestARecordingOfADeepCheckIsReplayedAndHasNoPrivateText(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.Of(t, vcsim.Config{Templates: []string{"ubuntu"}, Guest: vcsim.Guest{Tools: true}}))
		_, err := w.AddVM("/DC0/vm", "secret-vm")
		w.Must(err)
		text := w.recordedCheck()
		for _, private := range []string{planted, `"vmgroup"`, ">vmgroup<", "ubuntu", "DC0", "LocalDS", "secret-", "VM Network", "127.0.0.1", ".local", "cookie", "soap_session"} {
			if at := strings.Index(strings.ToLower(text), strings.ToLower(private)); at >= 0 {
				t.Errorf("the recording has the private text %q: …%s…", private, text[max(0, at-200):min(len(text), at+200)])
			}
		}
		paths := ofVM.FindAllStringSubmatch(text, -1)
		for _, parts := range paths {
			if parts[1] != parts[2] {
				t.Errorf("the directory's name and the file's have different stand-ins, want one for both: %s", parts[0])
			}
		}
		if len(paths) == 0 {
			t.Error("the recording has no path of a VM's .vmx file")
		}
		exchanges := recorded.Exchanges(t, text)
		sections := map[string]bool{}
		for _, x := range exchanges {
			if sections[x.Section] = true; x.Request == "" || x.Answer == "" {
				t.Errorf("exchange %d, %s: request %q, answer %q, want both", x.Number, x.Name, x.Request, x.Answer)
			}
		}
		for _, section := range []string{"login", "deep: stamp", "deep: changeVersion", "deep: power-on", "deep: destroyed VM"} {
			if !sections[section] {
				t.Errorf("the recording has no exchange of the section %q", section)
			}
		}
		confirmed, contradicted := recorded.Confirmed(t, exchanges)
		for _, row := range recorded.Rows() {
			if confirmed[row] == 0 && row != "answers RetrievePropertiesEx in pages" { // the answers of this small vCenter fit into one page
				t.Errorf("the recording does not show whether vCenter %s", row)
			}
		}
		if len(contradicted) > 0 {
			t.Errorf("the recording contradicts %q, want no contradiction", contradicted)
		}
	})
}

func TestARecordingHasTheExchangesOfRESTWithoutPrivateText(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.Of(t, vcsim.Config{Templates: []string{"ubuntu"}, Guest: vcsim.Guest{Tools: true}}))
		vctest.Value(w.AddTag("secret-team", "secret-shop"))
		w.Must(w.AddLibrary("secret-library"))
		template := vctest.Value(w.AddTemplate("/DC0/vm", "secret-template"))
		w.Must(w.AddLibraryItem("secret-library", "secret-item", "vm-template", template))
		w.Must(w.AddLibraryItem("secret-library", "secret-ovf", "ovf", vctest.Value(w.Find("/DC0/vm/ubuntu"))))
		text := w.recordedCheck(func(o *Options) {
			for _, item := range []string{"secret-item", "secret-ovf"} {
				o.Groups = append(o.Groups, groupOf(func(s *v1alpha1.VmGroupSpec) {
					s.Template, s.Tags = "secret-library/"+item, []v1alpha1.Tag{{Category: "secret-team", Name: "secret-shop"}}
				}))
			}
		})
		for _, private := range []string{planted, "secret-", "urn:vmomi", "127.0.0.1", "vmware-api-session-id"} {
			if at := strings.Index(strings.ToLower(text), private); at >= 0 {
				t.Errorf("the recording has the private text %q: …%s…", private, text[max(0, at-200):min(len(text), at+200)])
			}
		}
		const standIns = "00000000-0000-4000-8000-" // the beginning of the stand-ins for UUIDs
		answers := map[string]string{}
		for _, x := range recorded.Exchanges(t, text) {
			if strings.Contains(x.Name, " /") {
				name := standIn.ReplaceAllString(x.Name, "…")
				if answers[name] += x.Answer; x.Status != http.StatusOK || x.Answer == "" || x.Request == "" {
					t.Errorf("%s: status %d, request %q, answer %q, want 200 and both texts", x.Name, x.Status, x.Request, x.Answer)
				}
			}
		}
		for name, has := range map[string]string{
			"POST /rest/com/vmware/cis/session":                                      standIns,
			"GET /rest/com/vmware/cis/tagging/category/…":                            `"cardinality": "`,
			"POST /rest/com/vmware/cis/tagging/tag/…?~action=list-tags-for-category": "text-",
			"POST /rest/com/vmware/content/library?~action=find":                     standIns,
			"POST /rest/com/vmware/content/library/item?~action=find":                standIns,
			"GET /rest/com/vmware/content/library/item/…":                            `"type": "ovf"`,
			"GET /rest/vcenter/vm-template/library-items/…":                          `"vm_template": "` + template.Value + `"`,
			"POST /rest/com/vmware/vcenter/ovf/library-item/…?~action=filter":        "text-",
		} {
			if answer, is := answers[name]; !is || !strings.Contains(answer, has) {
				t.Errorf("%s: recorded is %t, and the answers are %q, want one with %q", name, is, answer, has)
			}
		}
		if t.Failed() {
			t.Log(slices.Sorted(maps.Keys(answers)))
		}
	})
}

// standIn matches the stand-in of a text in a path.
var standIn = regexp.MustCompile(`(id:)?(text-\d+|00000000-0000-4000-8000-[0-9a-f]{12})`)

// The recording of a vCenter that contradicts a belief shows the contradiction.
func TestARecordingShowsWhatAVCenterDoesOtherwise(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.Of(t, vcsim.Config{Templates: []string{"ubuntu"}, Guest: vcsim.Guest{Tools: true}}))
		w.ChangeReads(each("Task", "info.descriptionId", func(string) any { return "Something.else" }))
		_, contradicted := recorded.Confirmed(t, recorded.Exchanges(t, w.recordedCheck()))
		if len(contradicted) != 1 || !strings.Contains(contradicted[0], "Something.else") {
			t.Errorf("the recording contradicts %q, want only the name of a clone's task", contradicted)
		}
	})
}

// Recordings that users sent are in testdata/sent of this package; recordings that maintainers of other projects published are in package
// recorded.
func TestNoRecordingContradictsABelief(t *testing.T) {
	t.Parallel()
	hold := func(name string, all []recorded.Exchange) {
		confirmed, contradicted := recorded.Confirmed(t, all)
		n := 0
		for _, c := range confirmed {
			n += c
		}
		if len(contradicted) > 0 || n == 0 {
			t.Errorf("%s: contradicts %q and confirms %d beliefs, want no contradiction and a confirmation", name, contradicted, n)
		}
	}
	hold("published", recorded.Published(t))
	sent, err := filepath.Glob("testdata/sent/*.txt")
	must.Succeed(t, err)
	for _, name := range sent {
		text, err := os.ReadFile(name)
		must.Succeed(t, err)
		hold(name, recorded.Exchanges(t, string(text)))
	}
}
