package hook_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// longText has characters of one to four bytes, so that some bound falls within a character.
func longText(n int) string { return strings.Repeat("aé東🙂", n/10+1) }

// long makes one list, or one text, of a call or of vCenter longer than its bound.
var long = map[string]func(*v1alpha1.VmGroup, *longer){
	"finalizers": func(g *v1alpha1.VmGroup, l *longer) { // on a group without VMs, such finalizers are those of other installs
		l.state.VMs = nil
		for i := range 2000 {
			g.Finalizers = append(g.Finalizers, fmt.Sprintf("metacontroller.io/compositecontroller-vmgroup-%d", i))
		}
	},
	"holds": func(g *v1alpha1.VmGroup, _ *longer) {
		g.Annotations = map[string]string{}
		for i := range 2000 {
			g.Annotations[v1alpha1.AnnotationHold+fmt.Sprint(i)] = "web-0/vm-7000"
			g.Annotations[v1alpha1.AnnotationHold+"x"+fmt.Sprint(i)] = longText(300)
		}
		g.Spec.Deletion.HoldTimeoutSeconds = 60
	},
	"names in the spec": func(g *v1alpha1.VmGroup, _ *longer) {
		for i := range 1100 {
			name := fmt.Sprintf("%d-%s", i, longText(300))
			g.Spec.Adopt, g.Spec.ScaleIn.Protected, g.Spec.ScaleIn.Remove = append(g.Spec.Adopt, name), append(g.Spec.ScaleIn.Protected, name), append(g.Spec.ScaleIn.Remove, name)
			g.Spec.Replace = append(g.Spec.Replace, v1alpha1.Replacement{Name: name, MoRef: name})
			g.Spec.Tags = append(g.Spec.Tags, v1alpha1.Tag{Category: name, Name: name})
		}
	},
	"recorded members": func(g *v1alpha1.VmGroup, _ *longer) {
		for i := range 300 {
			g.Status.Members = append(g.Status.Members, v1alpha1.Member{Name: fmt.Sprintf("web-%d", 100+i), VMName: longText(1000), Ordinal: int32(100 + i), MoRef: fmt.Sprintf("vm-%d", 9000+i),
				Ready: true, Message: longText(2000), Host: longText(1000), LastTransitionTime: metav1.NewTime(time.Unix(1, 0))})
			g.Status.Disks = append(g.Status.Disks, v1alpha1.PersistentDisk{Name: "data", Ordinal: int32(100 + i), ID: fmt.Sprint(i)})
			g.Status.Quarantined = append(g.Status.Quarantined, v1alpha1.Quarantined{Name: longText(1000), MoRef: fmt.Sprintf("vm-%d", 5000+i)})
		}
	},
	"recorded conditions": func(g *v1alpha1.VmGroup, _ *longer) {
		for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionChildMissing, v1alpha1.ConditionStalled} {
			g.Status.Conditions = append(g.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "X", Message: longText(100_000)})
		}
		g.Status.LastMessage = longText(100_000)
	},
	"templates": func(_ *v1alpha1.VmGroup, l *longer) {
		l.state.Template = plan.Template{}
		for range 2000 {
			l.state.Template.Paths = append(l.state.Template.Paths, longText(1000))
		}
	},
	"other templates": func(_ *v1alpha1.VmGroup, l *longer) {
		l.state.Template = plan.Template{Others: make([]string, 5000)}
		for i := range l.state.Template.Others {
			l.state.Template.Others[i] = longText(300)
		}
	},
	"VMs": func(g *v1alpha1.VmGroup, l *longer) {
		replicas := int32(200)
		g.Spec.Replicas = &replicas
		for i := range 200 {
			vm := plan.VM{MoRef: fmt.Sprintf("vm-%d", 7000+i), Ordinal: int32(i), Name: longText(1000), Host: longText(1000), Power: plan.PoweredOn, Reachable: i%5 > 0, Tools: true,
				Unreachable: longText(1000), CPU: 2, MemoryMB: 4096, IPs: []string{"10.0.0.7"}, Generation: 1, VCenter: "vc-1", Template: longText(1000)}
			switch i % 5 {
			case 1:
				vm.Question = longText(2000) + fmt.Sprint(i)
			case 2:
				vm.Customization = plan.Customization{State: plan.CustomizationFailed, Error: longText(2000) + fmt.Sprint(i)}
			case 3:
				vm.Ordinal, vm.Created = int32(i-1), time.Unix(1, 0)
			}
			l.state.VMs = append(l.state.VMs, vm)
		}
	},
	"faults of steps": func(_ *v1alpha1.VmGroup, l *longer) {
		for i := range 200 {
			name := fmt.Sprintf("web-%d", i)
			l.pending[name] = plan.Pending{Op: plan.PowerOn, Ordinal: int32(i), State: plan.BackingOff,
				Fault: plan.Fault{Reason: "X", NeedsOperator: i%2 > 0, Message: fmt.Sprint(i%7) + longText(5000)}}
		}
	},
	"candidates": func(_ *v1alpha1.VmGroup, l *longer) {
		for i := range 200 {
			l.state.Candidates = append(l.state.Candidates, plan.Candidate{Entry: longText(1000), Fault: &plan.Fault{Reason: "X", Message: fmt.Sprint(i) + longText(5000)}})
		}
	},
	"vCenter's fault": func(_ *v1alpha1.VmGroup, l *longer) {
		l.state.Fault = &plan.Fault{Reason: "X", Message: longText(100_000)}
	},
	"an unknown vCenter": func(_ *v1alpha1.VmGroup, l *longer) { l.state.Known = false },
	"a user data's keys": func(g *v1alpha1.VmGroup, l *longer) {
		l.related = plan.Related{Unrecognized: longText(100_000), Fault: &plan.Fault{Reason: "X", NeedsOperator: true, Message: longText(100_000)}}
	},
}

// longer is a controller whose vCenter and steps return texts and lists beyond their bounds.
type longer struct {
	thinker
	pending map[string]plan.Pending
	related plan.Related
}

func (l *longer) observed(c plan.Call) plan.Observed {
	o := l.thinker.observed(c)
	o.Pending, o.Related = l.pending, l.related
	return o
}

// Sync also returns the Events, as the loop does.
func (l *longer) Sync(c plan.Call) plan.Result {
	r := planner.Make(l.observed(c))
	for events := r.Events; len(events) > 0; {
		var together []plan.Event
		together, events = plan.Together(events)
		r.Children = append(r.Children, plan.EventOf(c.Ref(), together))
	}
	return r
}

func (l *longer) Preview(c plan.Call) (plan.Result, plan.Outlook, error) {
	return planner.Make(l.observed(c)), planner.ForecastUpTo(l.observed(c), 5), nil
}

// tooLong names the texts of an answer that are longer than their bound, and those that are cut within a character.
func tooLong(path string, v any) (wrong []string) {
	switch x := v.(type) {
	case map[string]any:
		for key, one := range x {
			wrong = append(wrong, tooLong(path+"."+key, one)...)
		}
	case []any:
		for _, one := range x {
			wrong = append(wrong, tooLong(path+"[]", one)...)
		}
	case string:
		most := 1024 // the bound of a path in vCenter, and of an Event's message
		switch {
		case path == ".status.lastMessage", path == ".status.conditions[].message", path == ".message", path == ".blocked[].message", strings.HasPrefix(path, ".verdicts[]."), path == ".steps[].reason":
			most = plan.TextMost
		case path == ".status.members[].message", path == ".status.members[].vmName", path == ".status.members[].host", path == ".status.quarantined[].name":
			most = plan.MemberTextMost
		case strings.HasPrefix(path, ".children[].data."), strings.HasPrefix(path, ".children[].metadata."):
			return nil
		}
		if len(x) > most || !utf8.ValidString(x) || strings.ContainsRune(x, utf8.RuneError) {
			wrong = append(wrong, fmt.Sprintf("%s has %d bytes, at most %d", path, len(x), most))
		}
	}
	return wrong
}

func checkLong(t *testing.T, path string, which []string) {
	t.Helper()
	l := &longer{thinker: thinker{state: healthy()}, pending: map[string]plan.Pending{}}
	g := &v1alpha1.VmGroup{TypeMeta: metav1.TypeMeta{Kind: v1alpha1.Kind, APIVersion: v1alpha1.GroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "uid-web", Generation: 1},
		Spec:       v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu-24.04"}}
	g.Status.VCenterUUID = "vc-1"
	if path == "/finalize" {
		g.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	for _, name := range which {
		long[name](g, l)
	}
	body, err := json.Marshal(map[string]any{"controller": map[string]any{"metadata": map[string]any{"name": "vmgroup"}}, "parent": g, "finalizing": path == "/finalize"})
	if err != nil {
		t.Fatalf("write the request: %v", err)
	}
	answer := post(serve(l), path, body)
	if answer.Code != http.StatusOK {
		if answer.Code != http.StatusUnprocessableEntity || answer.Body.Len() > plan.TextMost+1 {
			t.Fatalf("%s, %q: %d in %d bytes: %.200q", path, which, answer.Code, answer.Body.Len(), answer.Body)
		}
		return
	}
	var is any
	if err := json.Unmarshal(answer.Body.Bytes(), &is); err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	if wrong := tooLong("", is); len(wrong) > 0 {
		t.Fatalf("%s, %q: %q", path, which, wrong[:min(len(wrong), 10)])
	}
}

// longPaths are the paths whose answers have texts.
var longPaths = []string{"/sync", "/finalize", "/plan"}

// No text of an answer exceeds its bound, whichever input is long: the API server would refuse the status.
func TestEveryTextOfAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	for name := range long {
		for _, path := range longPaths {
			checkLong(t, path, []string{name})
		}
	}
	for seed := range uint64(9) {
		checkSeveralLong(t, seed)
	}
}

// No text exceeds its bound if several inputs are long, either.
func FuzzLongTexts(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkSeveralLong(t, seed) })
}

func checkSeveralLong(t *testing.T, seed uint64) {
	t.Helper()
	random, names := rand.New(rand.NewPCG(seed, 46)), slices.Sorted(maps.Keys(long))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	checkLong(t, longPaths[random.IntN(len(longPaths))], names[:2+random.IntN(4)])
}
