package check

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// changing are the calls of a deep check that change something, with their number.
var changing = map[string]int{"CreateFolder": 4, "CloneVM_Task": 4, "ReconfigVM_Task": 11, "PowerOnMultiVM_Task": 3, "ResetVM_Task": 1, "ShutdownGuest": 1,
	"PowerOffVM_Task": 6, "PowerOnVM_Task": 1, "MoveIntoFolder_Task": 2, "UnregisterAndDestroy_Task": 3, "RegisterVM_Task": 1, "Destroy_Task": 3,
	"ReconfigureComputeResource_Task": 6, "CreateDisk_Task": 1, "VCenterUpdateVStorageObjectMetadataEx_Task": 1, "DeleteVStorageObject_Task": 1}

// atCall calls do before the n-th call of a method.
func (w *world) atCall(method string, n int, do func()) {
	w.Rewrite(func(r any) {
		if reflect.TypeOf(r).Elem().Name() == method {
			if n--; n == 0 {
				do()
			}
		}
	})
}

// nextAfter calls do after n calls of a method, so that do affects the next call.
func (w *world) nextAfter(method string, n int, do func()) {
	if n == 0 {
		do()
	} else {
		w.atCall(method, n, do)
	}
}

func TestDeepCheckStoppedAtAnyCallLeavesNothing(t *testing.T) {
	eachOf(t, firstAndLast, func(t *testing.T, w *world, method string, n int) {
		o := fullOptions(t, w)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.atCall(method, n, cancel)
		v, err := vsphere.New(w.config())
		w.Must(err)
		r := results{t, Run(ctx, v, o)}
		r.has("deep: clean-up", OK, "nothing is left", "")
	})
}

func TestDeepCheckLeavesNothingAfterAnyLostReply(t *testing.T) {
	eachOf(t, everyCall, func(t *testing.T, w *world, method string, n int) {
		o := fullOptions(t, w)
		w.nextAfter(method, n-1, func() { w.LoseReply(method, 1) })
		w.checked(nil, o).has("deep: clean-up", OK, "nothing is left", "")
	})
}

func TestDeepCheckLeavesNothingAfterAnyFailedCall(t *testing.T) {
	eachOf(t, firstAndLast, func(t *testing.T, w *world, method string, n int) {
		o := fullOptions(t, w)
		w.nextAfter(method, n-1, func() { w.FailCall(method, new(types.InvalidState), 1) })
		w.checked(nil, o).has("deep: clean-up", OK, "nothing is left", "")
	})
}

// everyCall returns the numbers of all calls, and firstAndLast the numbers of the first and the last one.
func everyCall(calls int) (ns []int) {
	for n := range calls {
		ns = append(ns, n+1)
	}
	return ns
}

func firstAndLast(calls int) []int { return slices.Compact([]int{1, calls}) }

// thinning is n if a thin run tests one of n violations, failing calls and missing requirements.
const thinning = 16

// eachOf runs a test for the calls of each changing method that which selects; a thin run, for few of them.
func eachOf(t *testing.T, which func(calls int) []int, test func(t *testing.T, w *world, method string, n int)) {
	t.Helper()
	t.Parallel()
	i := 0
	for _, method := range slices.Sorted(maps.Keys(changing)) {
		for _, n := range which(changing[method]) {
			if i++; thin.Out(i, thinning) {
				continue
			}
			t.Run(fmt.Sprintf("%s %d", method, n), func(t *testing.T) {
				inDeepWorld(t, func(t *testing.T, w *world) {
					test(t, w, method, n)
					w.clean("ubuntu", "unseen")
				}, fullConfig)
			})
		}
	}
}

func TestDeepCheckMakesTheListedChangingCalls(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		o := fullOptions(t, w)
		made := map[string]int{}
		w.Rewrite(func(r any) { made[reflect.TypeOf(r).Elem().Name()]++ })
		w.checked(nil, o)
		for method, n := range made {
			changes := strings.HasSuffix(method, "_Task") || method == "CreateFolder" || method == "ShutdownGuest"
			if changes && changing[method] != n {
				t.Errorf("%s: %d calls, want %d", method, n, changing[method])
			}
		}
	}, fullConfig)
}

func TestDeepCheckTakesAtMostThreeMinutesPlusItsClones(t *testing.T) {
	for name, guest := range map[string]vcsim.Guest{"with Tools": {Tools: true, IP: 5 * time.Second}, "without an address": {Tools: true, IP: time.Hour}, "without Tools": {}} {
		t.Run(name, func(t *testing.T) {
			inDeepWorld(t, func(t *testing.T, w *world) {
				o := fullOptions(t, w)
				v, err := vsphere.New(w.config())
				w.Must(err)
				began := time.Now()
				r := results{t, Run(t.Context(), v, o)}
				if took := time.Since(began) - 3*vctest.Lifelike.Clone; took > 3*time.Minute {
					t.Errorf("the check took %s without its clones, want at most 3m:\n%s", took, r)
				}
			}, fullConfig, func(c *vcsim.Config) { c.Guest, c.Latency = guest, vctest.Lifelike })
		})
	}
}

// identifying matches what must not be in a report: addresses, paths, moRefs, uuids, thumbprints, users, and the names of the tests'
// objects.
var identifying = regexp.MustCompile(`(?i)\d+\.\d+\.\d+\.\d+:|127\.0\.0\.1|[/\\\[]DC|DC0|LocalDS|ubuntu|debian|unseen|unmanaged|windows|\b(vm|host|group|folder|network|datastore|snapshot|task|domain|resgroup|dvportgroup|dvs|datacenter)-[a-z]?\d+|` +
	`[0-9a-f]{8}-[0-9a-f]{4}-|([0-9A-F]{2}:){4}|@|vmgroup-check|vmgroup check|planted`)

// reported checks the report of findings.
func (w *world) reported(found []Finding) {
	w.t.Helper()
	text, err := json.Marshal(Report(found))
	w.Must(err)
	if leak := identifying.FindString(string(text)); leak != "" {
		w.t.Errorf("the report contains %q, want none: %s", leak, text)
	}
}

func TestReportContainsNoNamesOrSecrets(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		name := func(what string) string { return "planted-name-" + what }
		vctest.Value(w.MakeFolder("/DC0/vm/" + name("folder")))
		vctest.Value(w.AddTemplate("/DC0/vm/"+name("folder"), name("template")))
		vctest.Value(w.AddSnapshot("/DC0/vm/"+name("folder")+"/"+name("template"), name("snapshot")))
		w.Must(w.ToVM(name("template")))
		w.Must(w.SetExtraConfig(name("template"), "guestinfo.userdata", name("secret")))
		w.Must(w.ToTemplate(name("template")))
		vctest.Value(w.AddTag(name("category"), name("tag")))
		vctest.Value(w.AddAttribute(name("attribute")))
		g := groupOf(func(s *v1alpha1.VmGroupSpec) {
			s.Template, s.Clone = name("template"), v1alpha1.Clone{Mode: v1alpha1.CloneLinked, Snapshot: name("snapshot")}
			s.Networks = []v1alpha1.Network{{Network: "DC0_DVPG0"}, {Network: "DC0_DVPG1"}}
			s.Tags, s.CustomAttributes = []v1alpha1.Tag{{Category: name("category"), Name: name("tag")}}, map[string]string{name("attribute"): name("value")}
		})
		g.Namespace, g.Name, g.UID = name("namespace"), name("group"), "planted-name-uid"
		bad := g.DeepCopy()
		bad.Name, bad.Spec.Template = name("other"), name("none")
		invalid := g.DeepCopy()
		invalid.Name = name("group: networks")
		for what, o := range map[string]Options{
			"no failure":    {Templates: []string{name("template")}, Networks: []string{"DC0_DVPG0"}, Groups: []*v1alpha1.VmGroup{g}, Deep: true, Hidden: "vm-4242"},
			"failures":      {Templates: []string{name("none")}, Networks: []string{name("network")}, Groups: []*v1alpha1.VmGroup{bad, invalid}, Deep: true},
			"no privileges": {Templates: []string{name("template")}, Groups: []*v1alpha1.VmGroup{g}, Deep: true},
			"failing tasks": {Templates: []string{name("template")}, Groups: []*v1alpha1.VmGroup{g}, Deep: true},
		} {
			w.Unrestrict()
			w.Heal()
			switch what {
			case "no privileges":
				w.Restrict("System.View", "System.Read")
			case "failing tasks":
				w.FailTask(vcsim.PowerOn, nil, &types.NoDiskSpace{FileFault: types.FileFault{File: name("file")}, Datastore: name("datastore")}, 0)
				w.FailTask(vcsim.MoveInto, nil, &types.DuplicateName{Name: name("duplicate")}, 0)
				w.FailTask(vcsim.Reset, nil, &types.InvalidProperty{Name: name("property")}, 0)
			}
			r := w.checked(func(c *vsphere.Config) {
				c.User = name("user")
				c.Selection.Folder = name("folder") + "/" + name("root")
			}, o) // also checks the report
			if what == "no failure" {
				r.has("deep: linked clone", OK, "", "")
				r.has("deep: hidden VM", Fail, "", "")
			}
			for _, row := range Report(r.all) {
				for fact, x := range row.Facts {
					if text, is := x.value.(string); is && !slices.Contains(words, text) && !numbered.MatchString(text) && text != "other" {
						t.Errorf("%s: the fact %s is %q", row.Check, fact, text)
					}
				}
			}
		}
	}, fullConfig)
}
