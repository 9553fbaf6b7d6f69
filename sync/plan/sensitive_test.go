package plan

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// plantedText is what must not be found anywhere.
const plantedText = "#cloud-config\npassword: planted-secret\n"

// leaked reports whether a text holds any of what was planted, in whatever clothes.
func leaked(text string) bool {
	encoded, _ := EncodeUserData(plantedText)
	for _, needle := range []string{"planted", hex.EncodeToString([]byte("planted")), strings.ToUpper(hex.EncodeToString([]byte("planted"))),
		base64.StdEncoding.EncodeToString([]byte(plantedText)), encoded, fmt.Sprint([]byte("planted"))} {
		if strings.Contains(text, strings.Trim(needle, "[]")) {
			return true
		}
	}
	return false
}

func TestUserDataIsNotPrintedWithWhatItIsPartOf(t *testing.T) {
	t.Parallel()
	related := Related{UserData: plantedText, Digest: "digest"}
	g := userDataGroup(&v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "web-data"}})
	details := Details{Spec: &g.Spec, UserData: plantedText}
	action := Action{Op: Clone, VM: "web-0", Reason: "1 is wanted", Details: &details}
	call, observed := Call{Group: g, Related: related}, Observed{Group: g, Related: related}
	outlook := Outlook{Steps: []Step{{Round: 1, Action: action}}}
	var none *Details
	for _, v := range []any{none, struct{ D Details }{details}, Sensitive(plantedText), related, &related, details, &details, action, &action, []Action{action}, call, &call, observed, &observed,
		outlook, map[string]any{"call": call}, Result{Actions: []Action{action}}, ReportSteps([]Action{action})} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%08.3f"} {
			if text := fmt.Sprintf(verb, v); leaked(text) {
				t.Errorf("%s of %T: %s", verb, v, text)
			}
		}
		if text := fmt.Sprint(v) + fmt.Sprintln(v) + fmt.Errorf("%w: %v", fmt.Errorf("it"), v).Error(); leaked(text) {
			t.Errorf("%T: %s", v, text)
		}
		text, err := json.Marshal(v)
		if leaked(string(text)) || err != nil && leaked(err.Error()) {
			t.Errorf("JSON of %T: %s %v", v, text, err)
		}
	}
	if text, err := json.Marshal(Sensitive(plantedText)); err != nil || string(text) != `"[redacted]"` {
		t.Errorf("%s %v", text, err)
	}
}

func TestNoPlanTellsUserData(t *testing.T) {
	t.Parallel()
	ref := UserDataRef{"Secret", "shop", "web-data", "user-data"}
	for name, related := range map[string]Related{"taken": ref.Take([]byte(plantedText)), "no text": ref.Take([]byte(plantedText + "\xff"))} {
		g := userDataGroup(&v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "web-data"}})
		g.UID, g.Generation, g.Spec.CPU, g.Spec.Memory, g.Spec.Template = "uid", 1, 1, 1, "t"
		o := Observed{Group: g, Related: related, OwnFolders: []string{"group-v1"}, State: VCenterState{Known: true, VCenter: "vc", Folder: "group-v1",
			Template: Template{MoRef: "vm-1", Paths: []string{"/DC0/vm/t"}, Datacenter: "DC0"}}}
		r := Make(o)
		all := fmt.Sprintf("%+v %#v", r, Forecast(o))
		for _, c := range r.Children {
			all += c.LastApplied + fmt.Sprintf("%+v", c.Fields)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if leaked(all) || leaked(string(text)) {
			t.Errorf("%s: %s %s", name, all, text)
		}
		if clones := len(r.Actions); clones != map[string]int{"taken": 1, "no text": 0}[name] {
			t.Errorf("%s: %d actions", name, clones)
		}
		for _, a := range r.Actions {
			if a.Details.UserData.Reveal() != plantedText {
				t.Errorf("%s: the clone is given %q", name, a.Details.UserData.Reveal())
			}
		}
	}
}
