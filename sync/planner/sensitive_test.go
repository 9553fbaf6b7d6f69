package planner_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// plantedText is what must not be found anywhere.
const plantedText = "#cloud-config\npassword: planted-secret\n"

// leaked reports whether a text contains any of the planted text, in any encoding.
func leaked(text string) bool {
	encoded, _ := plan.EncodeUserData(plantedText)
	for _, needle := range []string{"planted", hex.EncodeToString([]byte("planted")), strings.ToUpper(hex.EncodeToString([]byte("planted"))),
		base64.StdEncoding.EncodeToString([]byte(plantedText)), encoded, fmt.Sprint([]byte("planted"))} {
		if strings.Contains(text, strings.Trim(needle, "[]")) {
			return true
		}
	}
	return false
}

func TestUserDataIsNotPrintedWithTheValuesThatContainIt(t *testing.T) {
	t.Parallel()
	related := plan.Related{UserData: plantedText, Digest: "digest"}
	g := userDataGroup(&v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "web-data"}})
	details := plan.Details{Spec: &g.Spec, UserData: plantedText}
	action := plan.Action{Op: plan.Clone, Key: "web-0", Reason: "1 is wanted", Args: plan.CloneArgs{Details: &details}}
	call, observed := plan.Call{Group: g, Related: related}, plan.Observed{Group: g, Related: related}
	outlook := plan.Outlook{Steps: []plan.Step{{Round: 1, Action: action}}}
	var none *plan.Details
	for _, v := range []any{none, struct{ D plan.Details }{details}, plan.Sensitive(plantedText), related, &related, details, &details, action, &action, []plan.Action{action}, call, &call, observed, &observed,
		outlook, map[string]any{"call": call}, plan.Result{Actions: []plan.Action{action}}, plan.ReportSteps([]plan.Action{action})} {
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
	if text, err := json.Marshal(plan.Sensitive(plantedText)); err != nil || string(text) != `"[redacted]"` {
		t.Errorf("%s %v", text, err)
	}
}

func TestNoPlanShowsUserData(t *testing.T) {
	t.Parallel()
	ref := plan.UserDataRef{Kind: "Secret", Namespace: "shop", Name: "web-data", Key: "user-data"}
	for name, related := range map[string]plan.Related{"taken": ref.Take([]byte(plantedText)), "no text": ref.Take([]byte(plantedText + "\xff"))} {
		g := userDataGroup(&v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "web-data"}})
		g.UID, g.Generation, g.Spec.CPU, g.Spec.Memory, g.Spec.Template = "uid", 1, 1, 1, "t"
		o := plan.Observed{Group: g, Related: related, OwnFolders: []string{"group-v1"}, State: plan.VCenterState{Known: true, VCenter: "vc", Folder: "group-v1",
			Template: plan.Template{MoRef: "vm-1", Paths: []string{"/DC0/vm/t"}, Datacenter: "DC0"}}}
		r := planner.Make(o)
		all := fmt.Sprintf("%+v %#v", r, planner.Forecast(o))
		for _, c := range r.Children {
			all += c.LastApplied + fmt.Sprintf("%+v", c.Fields)
		}
		text, err := json.Marshal(r)
		must.Succeed(t, err)
		if leaked(all) || leaked(string(text)) {
			t.Errorf("%s: %s %s", name, all, text)
		}
		if clones := len(r.Actions); clones != map[string]int{"taken": 1, "no text": 0}[name] {
			t.Errorf("%s: %d actions", name, clones)
		}
		for _, a := range r.Actions {
			if a.Details().UserData.Reveal() != plantedText {
				t.Errorf("%s: the clone is given %q", name, a.Details().UserData.Reveal())
			}
		}
	}
}

func userDataGroup(u *v1alpha1.UserData) *v1alpha1.VmGroup {
	g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{UserData: u}}
	g.Namespace, g.Name = "shop", "web"
	return g
}
