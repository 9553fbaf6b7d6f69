package planner_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// drawn turns a property into a fuzz target: the bytes decide what is drawn, eight for each draw.
func drawn(f *testing.F, property func(*rapid.T)) {
	for seed := range uint64(16) {
		random, all := rand.New(rand.NewPCG(seed, 1)), make([]byte, 0, 4096)
		for len(all) < cap(all) {
			all = binary.LittleEndian.AppendUint64(all, random.Uint64())
		}
		f.Add(all)
	}
	f.Fuzz(rapid.MakeFuzz(property))
}

// For any observation, sensible or not, a plan doesn't panic, and has no action on another's object, for an invalid spec, or while vCenter is
// unknown.
func FuzzPlan(f *testing.F) { drawn(f, planHolds) }

func TestThePlanIsSafeForObservationsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	rapid.Check(t, planHolds)
}

func planHolds(t *rapid.T) {
	o := nonsense(t)
	r := planner.Make(o)
	if a, b := asJSON(t, r), asJSON(t, planner.Make(o)); a != b {
		t.Fatalf("two plans of one observation:\n%s", difference(a, b))
	}
	seen := map[string]bool{}
	for _, a := range r.Actions {
		if seen[a.Key] {
			t.Fatalf("a second action for %q: %+v", a.Key, a)
		}
		seen[a.Key] = true
		if wrong := stray(&o, a); wrong != "" {
			t.Fatalf("%s %q (%s): %s\n%s\n%+v", a.Op, a.Key, a.MoRef, wrong, asJSON(t, o.Group), o.State)
		}
	}
	if len(r.Actions) > 0 {
		if why := forbids(&o); why != "" {
			t.Fatalf("%s, and yet: %+v\n%s", why, r.Actions, asJSON(t, o.Group))
		}
	}
	if r.Finalized && !abandoned(&o) && (!o.Finalizing || !o.State.Known || !o.Emptied || len(o.State.VMs) > 0 || o.State.Folder != "") {
		t.Fatalf("finalized with something left: %+v", o.State)
	}
	if r.Resync <= 0 || r.Resync > o.Resync {
		t.Fatalf("the next call is asked for in %s", r.Resync)
	}
	if n := nullsIn(asJSON(t, r.Status)); n > 0 {
		t.Fatalf("%d nulls in the status: %s", n, asJSON(t, r.Status))
	}
}

// For any observation, the forecast ends.
func FuzzForecast(f *testing.F) {
	drawn(f, func(t *rapid.T) {
		o := nonsense(t)
		if f := planner.Forecast(o); len(f.Steps) > 20_000 {
			t.Fatalf("%d steps for %d members", len(f.Steps), o.Group.Replicas())
		}
	})
}

func nullsIn(text string) int { return strings.Count(text, ":null") + strings.Count(text, "[null") }

func abandoned(o *plan.Observed) bool {
	return o.Finalizing && o.Group.Annotations[v1alpha1.AnnotationAbandon] == "true"
}

// forbids says why no action is permitted now; empty if one is.
func forbids(o *plan.Observed) string {
	switch {
	case !o.State.Known:
		return "vCenter is not known"
	case o.Group.Spec.Paused:
		return "it is paused"
	case o.Group.Status.VCenterUUID != "" && o.Group.Status.VCenterUUID != o.State.VCenter && len(o.Group.Status.Members)+len(o.Group.Status.Quarantined) > 0:
		return "it is in another vCenter"
	case o.Finalizing:
		return ""
	case len(o.Group.Validate()) > 0:
		return "the spec is invalid"
	case slices.ContainsFunc(o.State.VMs, func(m plan.VM) bool { return m.Generation > o.Group.Generation }):
		return "another replica knows a newer spec"
	}
	return ""
}

// stray says what is wrong with an action; empty if nothing is.
func stray(o *plan.Observed, a plan.Action) string {
	at := slices.IndexFunc(o.State.VMs, func(m plan.VM) bool { return m.MoRef == a.MoRef })
	switch a.Op {
	case plan.CreateFolder, plan.CreateQuarantine, plan.SetRules, plan.ConfirmGone:
		return ""
	case plan.RemoveFolder:
		if a.MoRef != o.State.Folder && a.MoRef != o.State.Quarantine {
			return "it is not the group's folder"
		}
		return ""
	case plan.Clone:
		if plan.ArgsOf[plan.CloneArgs](a.Args).Template != o.State.Template.MoRef || a.Folder() != o.State.Folder || a.Folder() == "" || plan.ArgsOf[plan.CloneArgs](a.Args).Template == "" {
			return "it is cloned from or into something else"
		}
		return ""
	case plan.Adopt:
		if !slices.ContainsFunc(o.State.Candidates, func(c plan.Candidate) bool { return c.MoRef == a.MoRef && c.Fault == nil && !c.Done }) {
			return "the spec does not name it"
		}
		return ""
	}
	if at < 0 {
		return "it is no VM of the group"
	}
	switch m := o.State.VMs[at]; {
	case !m.Reachable:
		return "vCenter cannot reach it"
	case a.Op == plan.Destroy && !o.Finalizing && !plan.ArgsOf[plan.DestroyArgs](a.Args).NeverOn && (!m.Marked || !a.Marked):
		return "it is not marked"
	case a.Op == plan.Destroy && m.Power != plan.PoweredOff:
		return "it runs"
	}
	return ""
}

// nonsense draws observations that the generators of the properties don't: specs beyond every bound, stored statuses of another group, absurd
// names and numbers, and a vCenter of which only parts are known.
func nonsense(t *rapid.T) plan.Observed {
	o := anything(t)
	for range rapid.IntRange(0, 6).Draw(t, "oddities") {
		oddities[rapid.IntRange(0, len(oddities)-1).Draw(t, "oddity")](t, &o)
	}
	return o
}

func anyText(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "web-0", "web-1", "vm-100", "/", "*", "/rules", "a/b", "\x00", "\n,:", "web-0-vm-500", strings.Repeat("x", 300), "100%", "-1%",
		"9999999999999999999999%", "quarantine"}), rapid.String()).Draw(t, label)
}

func anyNumber(t *rapid.T, label string) int32 {
	return rapid.OneOf(rapid.SampledFrom([]int32{math.MinInt32, -1, 0, 1, 2, 1000, 1001, math.MaxInt32}), rapid.Int32()).Draw(t, label)
}

func anyTime(t *rapid.T, label string) time.Time {
	return rapid.SampledFrom([]time.Time{{}, now, now.Add(time.Hour), now.Add(-time.Hour), time.Unix(0, 0), time.Unix(1<<40, 0), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}).Draw(t, label)
}

func anyLimit(t *rapid.T, label string) *intstr.IntOrString {
	if n := intstr.FromInt32(anyNumber(t, label)); rapid.Bool().Draw(t, label+" as a number") {
		return &n
	}
	s := intstr.FromString(anyText(t, label))
	return &s
}

var oddities = []func(*rapid.T, *plan.Observed){
	func(t *rapid.T, o *plan.Observed) { n := anyNumber(t, "replicas"); o.Group.Spec.Replicas = &n },
	func(t *rapid.T, o *plan.Observed) {
		o.Group.Spec.CPU, o.Group.Spec.Memory = anyNumber(t, "cpu"), anyNumber(t, "memory")
	},
	func(t *rapid.T, o *plan.Observed) { o.Group.Name = anyText(t, "name") },
	func(t *rapid.T, o *plan.Observed) { o.Group.Spec.Template = anyText(t, "template") },
	func(t *rapid.T, o *plan.Observed) { o.Group.Generation = rapid.Int64().Draw(t, "generation") },
	func(t *rapid.T, o *plan.Observed) {
		u := &o.Group.Spec.Update
		u.MaxSurge, u.MaxUnavailable, u.Canary = anyLimit(t, "surge"), anyLimit(t, "unavailable"), anyLimit(t, "canary")
		u.MinReadySeconds = anyNumber(t, "min ready")
		n := anyNumber(t, "deadline")
		u.ProgressDeadlineSeconds = &n
	},
	func(t *rapid.T, o *plan.Observed) {
		h := &o.Group.Spec.Healing
		h.MaxUnhealthy, h.MaxConcurrent, h.Action = anyLimit(t, "unhealthy"), anyLimit(t, "concurrent"), v1alpha1.HealingAction(anyText(t, "action"))
	},
	func(t *rapid.T, o *plan.Observed) {
		n := anyNumber(t, "seconds")
		o.Group.Spec.Deletion.ShutdownTimeoutSeconds, o.Group.Spec.Readiness.TimeoutSeconds = &n, &n
		o.Group.Spec.Deletion.QuarantineSeconds, o.Group.Spec.Readiness.InitialDelaySeconds = n, n
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Group.Spec.Placement.Zones = rapid.SliceOfN(rapid.Just(anyText(t, "zone")), 0, 3).Draw(t, "zones")
	},
	func(t *rapid.T, o *plan.Observed) {
		a := &v1alpha1.Addresses{Ranges: []string{rapid.SampledFrom([]string{"", "-", "10.0.0.9-10.0.0.1", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
			"10.0.0.1-10.0.0.2", "0.0.0.0-255.255.255.255"}).Draw(t, "range"), anyText(t, "range")}, AdditionalRanges: []string{anyText(t, "additional")}, PrefixLength: anyNumber(t, "prefix"), Gateway: anyText(t, "gateway")}
		o.Group.Spec.Networks = append(o.Group.Spec.Networks, v1alpha1.Network{Network: anyText(t, "network"), IPv4: a, IPv6: a})
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Group.Spec.Service = &v1alpha1.Service{DrainSeconds: anyNumber(t, "drain"), Type: v1alpha1.ServiceType(anyText(t, "type"))}
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Group.Spec.Replace = append(o.Group.Spec.Replace, v1alpha1.Replacement{Name: anyText(t, "replace"), MoRef: anyText(t, "replaced")})
		o.Group.Spec.ScaleIn.Remove = append(o.Group.Spec.ScaleIn.Remove, anyText(t, "remove"))
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Group.Status.Members = append(o.Group.Status.Members, v1alpha1.Member{Name: anyText(t, "member"), Ordinal: anyNumber(t, "ordinal"),
			MoRef: anyText(t, "recorded"), LastTransitionTime: metav1.NewTime(anyTime(t, "since")), IPs: []string{anyText(t, "ip")}})
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Group.Status.VCenterUUID = rapid.SampledFrom([]string{"", "another", vcenter}).Draw(t, "recorded vCenter")
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Group.Status.Conditions = append(o.Group.Status.Conditions, metav1.Condition{Type: rapid.SampledFrom([]string{"", v1alpha1.ConditionReady, v1alpha1.ConditionChildMissing}).Draw(t, "condition"),
			Status: metav1.ConditionStatus(anyText(t, "is")), LastTransitionTime: metav1.NewTime(anyTime(t, "transition")), Message: anyText(t, "message")})
	},
	func(t *rapid.T, o *plan.Observed) { o.State.Known = false },
	func(t *rapid.T, o *plan.Observed) {
		o.State.Fault = &plan.Fault{Reason: anyText(t, "reason"), Message: anyText(t, "trouble"), NeedsOperator: rapid.Bool().Draw(t, "person")}
	},
	func(t *rapid.T, o *plan.Observed) { o.State.Template = plan.Template{} },
	func(t *rapid.T, o *plan.Observed) { o.State.VCenter = anyText(t, "vCenter") },
	func(t *rapid.T, o *plan.Observed) {
		if n := len(o.State.VMs); n > 0 {
			m := &o.State.VMs[rapid.IntRange(0, n-1).Draw(t, "odd one")]
			m.Name, m.Revision, m.Home, m.Addresses, m.Prepared = anyText(t, "its name"), anyText(t, "revision"), anyText(t, "home"), anyText(t, "addresses"), anyText(t, "prepared")
			m.Power, m.MarkReason = plan.PowerState(anyText(t, "power")), plan.MarkReason(anyText(t, "why"))
			m.Generation = rapid.Int64().Draw(t, "its generation")
			m.Ordinal = rapid.SampledFrom([]int32{0, 1, 5000, math.MaxInt32}).Draw(t, "its ordinal")
			m.MarkedAt, m.Quarantined, m.Restarted, m.Created = anyTime(t, "marked"), anyTime(t, "quarantined"), anyTime(t, "restarted"), anyTime(t, "created")
			m.Shutdown, m.BootTime = plan.Moment{At: anyTime(t, "asked"), Boot: anyTime(t, "booted")}, anyTime(t, "boot")
			m.IPs, m.VCenter = []string{anyText(t, "ip"), "10.0.0.1"}, rapid.SampledFrom([]string{"", vcenter, "another"}).Draw(t, "its vCenter")
		}
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Pending[anyText(t, "pending")] = plan.Pending{Op: plan.Op(anyText(t, "op")), Ordinal: anyNumber(t, "pending ordinal"), MoRef: anyText(t, "pending moRef"),
			State: plan.State(rapid.SampledFrom([]string{"", "Running", "Due", "BackingOff", "?"}).Draw(t, "state"))}
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Children = map[plan.ChildKey]plan.ObservedChild{{Kind: anyText(t, "kind"), Name: anyText(t, "child")}: {LastApplied: anyText(t, "applied")},
			{Kind: plan.KindConfigMap, Name: "web-members"}: {}}
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Called, o.FolderSeen = anyTime(t, "called"), anyTime(t, "folder seen")
	},
	func(t *rapid.T, o *plan.Observed) {
		o.Group.Annotations = map[string]string{v1alpha1.AnnotationAbandon: rapid.SampledFrom([]string{"true", "TRUE", ""}).Draw(t, "abandon")}
	},
	func(t *rapid.T, o *plan.Observed) { o.Emptied = true; o.State.VMs, o.State.Folder = nil, "" },
}

// Validate accepts or refuses a spec the same way each time, also after a round trip through JSON. A refused spec has a reason that names a
// field, and leads to no action.
func FuzzSpec(f *testing.F) {
	for _, text := range []string{`{}`, `{"cpu":2,"memory":4,"template":"t","replicas":3}`, `{"cpu":0,"memory":1e9,"template":""}`,
		`{"cpu":2,"memory":4,"template":"t","update":{"maxSurge":"25%","maxUnavailable":0,"canary":1}}`,
		`{"cpu":2,"memory":4,"template":"t","networks":[{"network":"n","ipv4":{"ranges":["10.0.0.1-10.0.0.9"],"prefixLength":24,"gateway":"10.0.0.254"}}]}`,
		`{"cpu":2,"memory":4,"template":"t","placement":{"zones":["a","b"],"folder":"x/y"},"tags":[{"category":"c","name":"n"}]}`,
		`{"cpu":2,"memory":4,"template":"t","service":{"type":"ClusterIP","ports":[{"port":80,"targetPort":"http"}],"drainSeconds":30}}`,
		`{"cpu":2,"memory":4,"template":"t","userData":{"secretKeyRef":{"name":"s","key":"k"}},"adopt":["vm-7","/DC0/vm/a"],"scaleIn":{"remove":["web-1"]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o := observed(2)
		o.Group.Spec = v1alpha1.VmGroupSpec{}
		if json.Unmarshal(text, &o.Group.Spec) != nil {
			return
		}
		o.State.Folder = "group-v7"
		refused := o.Group.Validate()
		again := &v1alpha1.VmGroup{ObjectMeta: o.Group.ObjectMeta}
		must.Succeed(t, json.Unmarshal([]byte(asJSON(t, o.Group.Spec)), &again.Spec))
		if a, b := fmt.Sprint(refused), fmt.Sprint(again.Validate()); a != b {
			t.Fatalf("two results:\n%s\n%s", a, b)
		}
		for _, e := range refused {
			if e.Field == "" || e.Type == "" {
				t.Fatalf("%v names no field", e)
			}
		}
		if len(refused) > 0 && len(planner.Make(o).Actions) > 0 {
			t.Fatalf("refused (%v), and yet: %+v", refused, planner.Make(o).Actions)
		}
		for _, a := range planner.Make(o).Actions {
			if wrong := stray(&o, a); wrong != "" {
				t.Fatalf("%s %s: %s", a.Op, a.Key, wrong)
			}
		}
	})
}
