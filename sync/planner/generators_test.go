package planner_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

const vcenter = "11111111-2222-3333-4444-555555555555"

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// group is a plain group of the four fields.
func group(replicas int32) *v1alpha1.VmGroup {
	g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu", Replicas: &replicas}}
	g.Namespace, g.Name, g.UID, g.Generation, g.ResourceVersion = "default", "web", types.UID("uid-web"), 3, "1"
	return g
}

// remove deletes the group, now.
func remove(o *plan.Observed) {
	o.Finalizing, o.FinalizingSince = true, o.Now
	o.Group.DeletionTimestamp = &metav1.Time{Time: o.Now}
	o.Group.Generation++
}

// undelete makes a drawn group one that isn't being deleted.
func undelete(o *plan.Observed) {
	if o.Finalizing {
		o.Finalizing, o.Group.DeletionTimestamp = false, nil
		o.Group.Generation--
	}
}

// observed is a new group in a healthy vCenter.
func observed(replicas int32) plan.Observed {
	return plan.Observed{
		Group: group(replicas), Called: now, Now: now, Lease: 90 * time.Second, Resync: 30 * time.Second, OwnFolders: []string{"group-v7"},
		State: plan.VCenterState{Known: true, VCenter: vcenter,
			Template: plan.Template{MoRef: "vm-1", Paths: []string{"/DC0/vm/ubuntu"}, Datacenter: "DC0"}},
	}
}

// vm is a member as the group's spec wants it, powered on.
func vm(o *plan.Observed, ordinal int32) plan.VM {
	return plan.VM{
		MoRef: fmt.Sprintf("vm-%d", 100+ordinal), Name: plan.MemberName(o.Group.Name, ordinal), Ordinal: ordinal,
		Revision: plan.RevisionWith(&o.Group.Spec, o.Related.Digest), Addresses: addressesOf(o, ordinal), Prepared: plan.PreparationOf(&o.Group.Spec),
		Home: plan.HomeOf(&o.Group.Spec).String(), Generation: o.Group.Generation, Power: plan.PoweredOn, Reachable: true,
		CPU: o.Group.Spec.CPU, MemoryMB: o.Group.MemoryMB(), VCenter: vcenter,
	}
}

// addMembers adds the first n members to the group's folder, as the group's spec wants them, then applies change.
func addMembers(o *plan.Observed, n int32, change ...func(m *plan.VM)) {
	o.State.Folder = "group-v7"
	for ordinal := range n {
		m := vm(o, ordinal)
		for _, f := range change {
			f(&m)
		}
		o.State.VMs = append(o.State.VMs, m)
	}
}

// number draws a number or a percentage.
func number(t *rapid.T, label string, from int) *intstr.IntOrString {
	n := intstr.FromInt32(int32(rapid.IntRange(from, 3).Draw(t, label)))
	if rapid.Bool().Draw(t, label+" in percent") {
		n = intstr.FromString(fmt.Sprintf("%d%%", max(from, rapid.IntRange(0, 4).Draw(t, label+" percent")*25)))
	}
	if rapid.IntRange(0, 2).Draw(t, label+" by default") == 0 {
		return nil
	}
	return &n
}

// policies draws every field of the spec that says how members are changed.
func policies(t *rapid.T, s *v1alpha1.VmGroupSpec) {
	for {
		s.Update.MaxSurge, s.Update.MaxUnavailable = number(t, "surge", 0), number(t, "unavailable", 0)
		if g := (&v1alpha1.VmGroup{Spec: *s}); !strings.Contains(g.Validate().ToAggregate().Error(), "maxUnavailable") {
			break
		}
	}
	s.Update.Strategy = rapid.SampledFrom([]v1alpha1.UpdateStrategy{"", "", "", v1alpha1.UpdateOnDelete}).Draw(t, "strategy")
	s.Update.Resize = rapid.SampledFrom([]v1alpha1.ResizeWay{"", v1alpha1.ResizeInPlace, v1alpha1.ResizeReplace}).Draw(t, "resize")
	s.Update.MinReadySeconds = rapid.SampledFrom([]int32{0, 0, 20}).Draw(t, "min ready")
	s.Update.Paused = rapid.IntRange(0, 9).Draw(t, "update paused") == 0
	s.Update.OnTemplateChange = rapid.SampledFrom([]v1alpha1.TemplateChange{"", v1alpha1.TemplateChangeReplace}).Draw(t, "on template change")
	if rapid.IntRange(0, 5).Draw(t, "has canary") == 0 {
		s.Update.Canary = number(t, "canary", 0)
	}
	if rapid.IntRange(0, 3).Draw(t, "has windows") == 0 { // now is 12:00 UTC on a Saturday
		s.Update.Windows = []v1alpha1.Window{{Start: rapid.SampledFrom([]string{"11:30", "12:10", "20:00"}).Draw(t, "window"), DurationSeconds: 3600}}
	}
	if rapid.IntRange(0, 3).Draw(t, "has a greatest age") == 0 {
		s.Update.MaxAgeSeconds = rapid.SampledFrom([]*int32{in(3600), in(31536000)}).Draw(t, "age")
	}
	s.Readiness.Check = rapid.SampledFrom([]v1alpha1.ReadinessCheck{"", v1alpha1.ReadyToolsRunning, v1alpha1.ReadyGuestIP}).Draw(t, "readiness")
	switch rapid.IntRange(0, 3).Draw(t, "probe") {
	case 0:
		s.Readiness.TCPSocket = &v1alpha1.TCPSocket{Port: 22}
	case 1:
		s.Readiness.HTTPGet = &v1alpha1.HTTPGet{Port: 80}
	}
	timeout := rapid.SampledFrom([]int32{30, 600}).Draw(t, "timeout")
	s.Readiness.TimeoutSeconds = &timeout
	s.Healing.Action = rapid.SampledFrom([]v1alpha1.HealingAction{"", v1alpha1.HealReplace, v1alpha1.HealNone}).Draw(t, "healing")
	s.Healing.MaxUnhealthy, s.Healing.MaxConcurrent = number(t, "unhealthy", 0), number(t, "concurrent", 1)
	s.ScaleIn.Order = rapid.SampledFrom([]v1alpha1.ScaleInOrder{"", v1alpha1.ScaleInOldest, v1alpha1.ScaleInNewest}).Draw(t, "order")
	for i := range int32(6) {
		switch name := plan.MemberName("web", i); rapid.IntRange(0, 9).Draw(t, "listed") {
		case 0:
			s.ScaleIn.Protected = append(s.ScaleIn.Protected, name)
		case 1:
			s.ScaleIn.Remove = append(s.ScaleIn.Remove, name)
		}
	}
	shutdown := rapid.SampledFrom([]int32{0, 60}).Draw(t, "shutdown")
	s.Deletion.ShutdownTimeoutSeconds = &shutdown
	s.Deletion.QuarantineSeconds = rapid.SampledFrom([]int32{0, 0, 300}).Draw(t, "quarantine")
	s.Deletion.HoldTimeoutSeconds = rapid.SampledFrom([]int32{0, 0, 300}).Draw(t, "hold")
	s.Deletion.Policy = rapid.SampledFrom([]v1alpha1.DeletionPolicy{"", v1alpha1.DeletionRetain}).Draw(t, "deletion")
}

// ops are those that can be pending for a member.
var ops = []plan.Op{plan.Clone, plan.PowerOn, plan.Mark, plan.Destroy, plan.ShutdownGuest, plan.PowerOff, plan.Reconfigure, plan.Reset,
	plan.Quarantine, plan.Unmark}

// anyVM draws a member in any state.
func anyVM(t *rapid.T, o *plan.Observed, ordinal int32, moRef string) plan.VM {
	ago := func(label string) time.Time {
		return now.Add(-time.Duration(rapid.IntRange(1, 900).Draw(t, label)) * time.Second)
	}
	m := vm(o, ordinal)
	m.Power = rapid.SampledFrom([]plan.PowerState{plan.PoweredOn, plan.PoweredOn, plan.PoweredOff, plan.Suspended}).Draw(t, "power")
	m.Folder = o.State.Folder
	if m.Power == plan.PoweredOn {
		m.BootTime = ago("boot")
		if m.Tools = rapid.IntRange(0, 3).Draw(t, "tools") > 0; m.Tools && rapid.IntRange(0, 3).Draw(t, "has address") > 0 {
			m.IPs = []string{"192.0.2.7"}
		}
		if m.Reported = m.Tools || rapid.Bool().Draw(t, "reported"); m.Reported && rapid.IntRange(0, 9).Draw(t, "reports others") == 0 {
			m.IPs, m.UnreportedAddresses = []string{"192.0.2.8"}, []string{"192.0.2.7"}
		}
		if rapid.IntRange(0, 5).Draw(t, "asked to halt") == 0 {
			m.Shutdown = plan.Moment{At: ago("asked"), Boot: m.BootTime}
		}
	}
	if m.Marked = rapid.IntRange(0, 3).Draw(t, "marked") == 0; m.Marked {
		m.MarkedAt = rapid.SampledFrom([]time.Time{{}, ago("marked at")}).Draw(t, "marked when")
		m.MarkReason = rapid.SampledFrom([]plan.MarkReason{"", plan.MarkReasonScaleIn, plan.MarkReasonUpdate, plan.MarkReasonHealing, plan.MarkReasonResize, plan.MarkReasonReplace, plan.MarkReasonDuplicate}).Draw(t, "why")
	}
	if m.Reachable = rapid.IntRange(0, 7).Draw(t, "reachable") > 0; !m.Reachable {
		m.Unreachable = "disconnected"
	}
	if rapid.IntRange(0, 7).Draw(t, "asks") == 0 {
		m.Question = "Was it moved? (choices: No, Yes)"
	}
	if rapid.IntRange(0, 3).Draw(t, "customized") == 0 {
		m.Customization.State = rapid.SampledFrom([]plan.CustomizationState{plan.CustomizationPending, plan.CustomizationRunning, plan.CustomizationFailed}).Draw(t, "customization")
	}
	m.CPU = rapid.SampledFrom([]int32{1, 2, 2, 2, 3}).Draw(t, "cpu")
	m.CPUHotAdd = rapid.Bool().Draw(t, "hot-add")
	m.Created = ago("created").Add(-time.Duration(rapid.IntRange(0, 1).Draw(t, "hours")) * time.Hour)
	if rapid.IntRange(0, 3).Draw(t, "old") == 0 {
		m.Revision = "0123456789"
	}
	m.Prepared = rapid.SampledFrom([]string{"", plan.Unprepared, plan.Unprepared + m.Prepared, m.Prepared, "otherwise"}).Draw(t, "prepared")
	m.Standby = o.Group.Spec.Standby > 0 && rapid.IntRange(0, 2).Draw(t, "standby") == 0
	m.Fingerprint = rapid.SampledFrom([]string{"", "now", "now", "before"}).Draw(t, "fingerprint")
	if rapid.IntRange(0, 5).Draw(t, "restarted") == 0 {
		m.Restarted = ago("restart")
	}
	m.MoRef = moRef
	switch rapid.IntRange(0, 19).Draw(t, "was missing") {
	case 0:
		m.InstanceUUID = "id-of-" + moRef
		o.Group.Status.GivenUp = append(o.Group.Status.GivenUp, v1alpha1.GivenUp{Name: m.Name, MoRef: "vm-8", InstanceUUID: m.InstanceUUID})
	case 1:
		m.InstanceUUID = "id-of-" + moRef
		o.Group.Status.Members = append(o.Group.Status.Members, v1alpha1.Member{Name: m.Name, Ordinal: ordinal, MoRef: "was-" + moRef, InstanceUUID: m.InstanceUUID})
		o.Group.Status.VCenterUUID = vcenter
	}
	if o.Group.Spec.Readiness.Probes() && rapid.IntRange(0, 4).Draw(t, "asked") > 0 {
		a := plan.Answer{Address: plan.AskedAddress(m.ServiceAddresses()), Refused: rapid.IntRange(0, 9).Draw(t, "refused") == 0,
			Concluded: rapid.SampledFrom([]plan.Conclusion{plan.Answering, plan.Answering, plan.Silent, ""}).Draw(t, "answer")}
		if o.Answers.Of == nil {
			o.Answers = plan.Answers{Of: map[string]plan.Answer{}, Suppressed: rapid.IntRange(0, 3).Draw(t, "suppressed") == 0}
		}
		o.Answers.Of[moRef] = a
	}
	if rapid.IntRange(0, 3).Draw(t, "recorded") > 0 {
		o.Group.Status.Members = append(o.Group.Status.Members, v1alpha1.Member{Name: m.Name, Ordinal: ordinal, MoRef: m.MoRef,
			Ready: rapid.Bool().Draw(t, "was ready"), LastTransitionTime: metav1.NewTime(ago("since"))})
		if last := &o.Group.Status.Members[len(o.Group.Status.Members)-1]; rapid.IntRange(0, 3).Draw(t, "has its boot") > 0 && !m.BootTime.IsZero() {
			last.BootTime = metav1.NewTime(m.BootTime.Add(rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, -time.Minute}).Draw(t, "boot moved")))
		}
		o.Group.Status.VCenterUUID = vcenter
	}
	return m
}

// anything draws an observation: any policy, members in any state, pending actions, recorded members that vCenter doesn't show, VMs in
// quarantine and VMs to adopt.
func anything(t *rapid.T) plan.Observed {
	o := observed(rapid.Int32Range(0, 8).Draw(t, "replicas"))
	policies(t, &o.Group.Spec)
	features(t, &o)
	o.Group.Spec.Paused = rapid.IntRange(0, 15).Draw(t, "paused") == 0
	if o.Group.Spec.Standby = rapid.SampledFrom([]int32{0, 0, 1, 2, 3}).Draw(t, "standby members"); o.Group.Spec.Standby > 0 {
		o.Group.Spec.Disks = nil // they exclude each other
	}
	o.State.Template.Fingerprint = "now"
	if rapid.IntRange(0, 5).Draw(t, "has folder") > 0 {
		o.State.Folder = "group-v7"
		o.State.Quarantine = rapid.SampledFrom([]string{"", "group-v8"}).Draw(t, "quarantine folder")
	}
	for ordinal := range int32(10) {
		for n := range rapid.SampledFrom([]int{0, 0, 1, 1, 1, 1, 1, 2}).Draw(t, "vms of one ordinal") {
			m := anyVM(t, &o, ordinal, fmt.Sprintf("vm-%d", 100+10*int(ordinal)+n))
			o.State.VMs = append(o.State.VMs, m)
		}
		if rapid.IntRange(0, 9).Draw(t, "in quarantine") == 0 {
			q := anyVM(t, &o, ordinal, fmt.Sprintf("vm-%d", 500+ordinal))
			q.Marked, q.Power, q.BootTime = true, plan.PoweredOff, time.Time{}
			q.Quarantined = now.Add(-time.Duration(rapid.IntRange(1, 400).Draw(t, "quarantined")) * time.Second)
			if rapid.IntRange(0, 4).Draw(t, "kept") == 0 {
				q.MarkReason = plan.MarkReasonDuplicate
			}
			q.Name = rapid.SampledFrom([]string{q.Name, plan.QuarantineName("web", ordinal, q.MoRef)}).Draw(t, "name in quarantine")
			q.Folder = rapid.SampledFrom([]string{o.State.Folder, o.State.Quarantine, "elsewhere"}).Draw(t, "place in quarantine")
			o.State.VMs = append(o.State.VMs, q)
		}
		if rapid.IntRange(0, 9).Draw(t, "vanished") == 0 {
			o.Group.Status.Members = append(o.Group.Status.Members, v1alpha1.Member{
				Name: plan.MemberName("web", ordinal), Ordinal: ordinal, MoRef: fmt.Sprintf("vm-%d", 900+ordinal)})
			o.Group.Status.VCenterUUID = vcenter
		}
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "strays") {
		ordinal := rapid.Int32Range(0, 9).Draw(t, "stray's ordinal")
		x := plan.Stray{VM: anyVM(t, &o, ordinal, fmt.Sprintf("vm-%d", 3000+10*int(ordinal)+len(o.State.Strays))), Why: "it was created by backup"}
		x.Pending, x.Holds = rapid.IntRange(0, 3).Draw(t, "stray isn't decided") == 0, rapid.Bool().Draw(t, "stray holds its ordinal")
		x.IsTemplate = x.Holds && !x.Pending && rapid.Bool().Draw(t, "stray is a template")
		o.State.Strays = append(o.State.Strays, x)
		o.Group.Status.Members = slices.DeleteFunc(o.Group.Status.Members, func(m v1alpha1.Member) bool { return m.MoRef == x.MoRef })
	}
	o.Pending = map[string]plan.Pending{}
	for range rapid.IntRange(0, 4).Draw(t, "pending") {
		ordinal := rapid.Int32Range(0, 9).Draw(t, "pending ordinal")
		o.Pending[plan.MemberName("web", ordinal)] = plan.Pending{
			Ordinal: ordinal,
			Op:      rapid.SampledFrom(ops).Draw(t, "op"),
			Standby: o.Group.Spec.Standby > 0 && rapid.Bool().Draw(t, "for a standby member"),
			State:   rapid.SampledFrom([]plan.State{plan.Running, plan.BackingOff, plan.Due}).Draw(t, "state"),
			Fault: rapid.SampledFrom([]plan.Fault{{}, {Reason: "DatastoreFull", Message: "the datastore is full"},
				{Reason: plan.ReasonNameConflict, Message: "taken", NeedsOperator: true},
				{Reason: plan.ReasonResizeRefused, Message: "refused", NeedsOperator: true}}).Draw(t, "fault"),
		}
	}
	for n := range rapid.SampledFrom([]int{0, 0, 0, 2}).Draw(t, "to adopt") {
		c := plan.Candidate{Entry: fmt.Sprintf("/DC0/vm/old/db-%d", n), MoRef: fmt.Sprintf("vm-%d", 700+n), Name: fmt.Sprintf("db-%d", n),
			Folder: "group-v9", Ordinal: int32(rapid.IntRange(-1, 3).Draw(t, "former ordinal"))}
		if rapid.IntRange(0, 2).Draw(t, "cannot be adopted") == 0 {
			c.Fault = &plan.Fault{Reason: "AdoptNotFound", Message: "there is no such VM", NeedsOperator: true}
		}
		o.Group.Spec.Adopt = append(o.Group.Spec.Adopt, c.Entry)
		o.Group.Spec.Disks = nil // they exclude each other
		o.State.Candidates = append(o.State.Candidates, c)
	}
	for n, m := range o.State.VMs {
		if rapid.IntRange(0, 7).Draw(t, "held") == 0 {
			annotate(fmt.Sprintf("holder-%d", n), rapid.SampledFrom([]string{m.Name + "/" + m.MoRef, m.Name + "/vm-9", "true"}).Draw(t, "annotation"))(&o)
		}
	}
	if o.Finalizing = rapid.IntRange(0, 4).Draw(t, "finalizing") == 0; o.Finalizing {
		o.FinalizingSince = now.Add(-time.Duration(rapid.IntRange(0, 200).Draw(t, "finalizing for")) * time.Second)
		o.Group.DeletionTimestamp = &metav1.Time{Time: o.FinalizingSince}
		o.Group.Generation++
	}
	if o.Group.Spec.UserData != nil && rapid.IntRange(0, 3).Draw(t, "lacks user data") == 0 {
		o.Related = plan.Related{Fault: &plan.Fault{Reason: "SecretNotFound", Message: "the Secret default/boot is not there", NeedsOperator: true}}
	}
	return o
}

// healthy draws an observation of a group that can reach its goal.
func healthy(t *rapid.T) plan.Observed {
	o := anything(t)
	o.State.VMs = slices.DeleteFunc(o.State.VMs, func(m plan.VM) bool { return m.MoRef < "vm-5" && m.MoRef[len(m.MoRef)-1] != '0' })
	for i := range o.State.VMs {
		m := &o.State.VMs[i]
		m.Reachable, m.Unreachable, m.Question, m.Customization, m.UnreportedAddresses = true, "", "", plan.Customization{}, nil
		if m.Power == plan.PoweredOn {
			m.Tools, m.IPs = true, []string{"192.0.2.7"}
		}
	}
	for i := range o.State.Candidates {
		o.State.Candidates[i].Fault = nil
	}
	for i := range o.State.Strays {
		o.State.Strays[i].Pending = false
	}
	o.Answers = plan.Answers{Of: map[string]plan.Answer{}}
	for i := range o.State.VMs {
		if m := &o.State.VMs[i]; len(m.IPs) > 0 {
			o.Answers.Of[m.MoRef] = plan.Answer{Address: plan.AskedAddress(m.IPs), Concluded: plan.Answering}
		}
	}
	o.Group.Status.Members = nil
	o.Pending = nil
	o.Group.Spec.Paused = false
	o.Related.Fault = nil
	return o
}

// goal says how a group differs from its spec, apart from differences that the spec itself holds; empty if it does not.
func goal(o *plan.Observed, r *plan.Result) string {
	s := &r.Status
	switch {
	case s.StandbyReplicas != o.Group.Spec.Standby, slices.ContainsFunc(s.Standby, func(m v1alpha1.StandbyMember) bool { return !m.Ready }):
	case s.CurrentReplicas != o.Group.Replicas(), s.ReadyReplicas != o.Group.Replicas(), s.Phase != v1alpha1.PhaseRunning:
	case s.UpdatedReplicas != o.Group.Replicas() && o.Group.Spec.Update.Strategy != v1alpha1.UpdateOnDelete &&
		!o.Group.Spec.Update.Paused && o.Group.Spec.Update.Canary == nil:
	default:
		return ""
	}
	return fmt.Sprintf("%s, %d of %d, %d ready, %d updated, standby %+v: %s", s.Phase, s.CurrentReplicas, o.Group.Replicas(), s.ReadyReplicas, s.UpdatedReplicas, s.Standby, s.LastMessage)
}

// standby returns the ordinals that only standby members have, also those that are being cloned.
func standby(o plan.Observed) map[int32]bool {
	set, serving := map[int32]bool{}, map[int32]bool{}
	for _, m := range o.State.VMs {
		if m.Quarantined.IsZero() {
			set[m.Ordinal] = true
			serving[m.Ordinal] = serving[m.Ordinal] || !m.IsStandby()
		}
	}
	exist := maps.Clone(set)
	for ordinal := range ordinals(o) { // recorded members that are not seen
		serving[ordinal] = serving[ordinal] || !exist[ordinal]
	}
	for _, p := range o.Pending {
		if p.Op == plan.Clone && p.State == plan.Running {
			set[p.Ordinal] = true
			serving[p.Ordinal] = serving[p.Ordinal] || !p.Standby && !exist[p.Ordinal]
		}
	}
	maps.DeleteFunc(set, func(ordinal int32, _ bool) bool { return serving[ordinal] })
	return set
}

// ordinals returns those of the VMs that vCenter shows, or that aren't confirmed to be gone.
func ordinals(o plan.Observed) map[int32]bool {
	set := map[int32]bool{}
	here := map[string]bool{}
	for _, m := range o.State.VMs {
		here[m.MoRef] = true
		if m.Quarantined.IsZero() {
			set[m.Ordinal] = true
		}
	}
	for _, m := range o.Group.Status.Members {
		if !here[m.MoRef] && !o.State.IsGone(m.MoRef, m.InstanceUUID) && !wasMissing(&o, m.InstanceUUID) {
			set[m.Ordinal] = true
		}
	}
	return set
}

// wasMissing reports whether anyVM drew a VM with that instanceUuid, as one that was missing before.
func wasMissing(o *plan.Observed, instanceUUID string) bool {
	return instanceUUID != "" && slices.ContainsFunc(o.State.VMs, func(m plan.VM) bool { return m.InstanceUUID == instanceUUID })
}

// withArriving is ordinals, with those that are being cloned.
func withArriving(o plan.Observed) map[int32]bool {
	set := ordinals(o)
	for _, p := range o.Pending {
		if p.Op == plan.Clone && p.State == plan.Running {
			set[p.Ordinal] = true
		}
	}
	return set
}

func asJSON(t interface{ Fatal(...any) }, v any) string {
	b, err := json.Marshal(v)
	must.Succeed(t, err)
	return string(b)
}

// limits returns what the spec promises: the most members beyond replicas, and the fewest members that serve.
func limits(o *plan.Observed) (surge, least int) {
	replicas := int(o.Group.Replicas())
	scaled := func(v *intstr.IntOrString, up bool) int {
		quarter := intstr.FromString("25%")
		n, _ := intstr.GetScaledValueFromIntOrPercent(cmp.Or(v, &quarter), replicas, up)
		return n
	}
	u := &o.Group.Spec.Update
	unavailable := scaled(u.MaxUnavailable, false)
	if surge = scaled(u.MaxSurge, true); surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	if o.Group.Spec.HasPersistentDisks() {
		surge, unavailable = 0, max(1, unavailable)
	}
	return surge, replicas - unavailable
}

// ready reports whether a VM passes the readiness check of the spec.
func ready(o *plan.Observed, m plan.VM) bool {
	if m.Power != plan.PoweredOn || !m.Reachable || m.Question != "" || !m.Quarantined.IsZero() {
		return false
	}
	for _, other := range o.State.VMs {
		if other.Ordinal == m.Ordinal && other.MoRef != m.MoRef && other.Quarantined.IsZero() && precedes(other, m) {
			return false
		}
	}
	if state := m.Customization.State; state != "" && o.Group.Spec.CustomizationSpec != "" && m.Former == (plan.Former{}) {
		was := slices.ContainsFunc(o.Group.Status.Members, func(r v1alpha1.Member) bool { return r.MoRef == m.MoRef && r.Ready })
		if state == plan.CustomizationRunning || !was {
			return false
		}
	}
	if len(m.UnreportedAddresses) > 0 {
		return false
	}
	if o.Group.Spec.Readiness.Probes() {
		m.IPs = m.ServiceAddresses()
	}
	switch o.Group.Spec.Readiness.Check {
	case v1alpha1.ReadyToolsRunning:
		return (m.Tools || m.Reported || len(m.IPs) > 0) && answers(o, m)
	case v1alpha1.ReadyGuestIP:
		return len(m.IPs) > 0 && answers(o, m)
	}
	return (len(m.StaticAddresses()) == 0 || len(m.IPs) > 0 || recordedReady(o, m)) && answers(o, m)
}

// precedes reports whether another VM of the ordinal is the member instead of m, which runs and can be reached: see duplicates.go.
func precedes(other, m plan.VM) bool {
	on := other.Power == plan.PoweredOn || other.Marked && other.MarkReason == plan.MarkReasonPowerCycle
	return on && other.Reachable && cmp.Or(m.Created.Compare(other.Created), strings.Compare(other.MoRef, m.MoRef)) < 0
}

// serving counts the members that are ready, have been ready for minReadySeconds according to the stored status, and that no pending action
// and none of these actions take down.
func serving(o *plan.Observed, actions []plan.Action) (n int) { return servingBut(o, actions, nil) }

// servingBut is serving without some VMs, by moRef.
func servingBut(o *plan.Observed, actions []plan.Action, without map[string]bool) (n int) {
	for _, m := range o.State.VMs {
		down := func(op plan.Op, hot bool) bool {
			switch op {
			case plan.ShutdownGuest, plan.PowerOff, plan.Reset, plan.Quarantine, plan.Destroy, plan.Release:
				return true
			}
			return op == plan.Reconfigure && !hot
		}
		taken := halting(o, m) || down(o.Pending[plan.MemberName("web", m.Ordinal)].Op, true)
		for _, a := range actions {
			taken = taken || a.MoRef == m.MoRef && down(a.Op, plan.ArgsOf[plan.ResizeArgs](a.Args).Hot)
		}
		since := o.Now
		for _, r := range o.Group.Status.Members {
			if r.MoRef == m.MoRef && r.Ready == ready(o, m) {
				since = r.LastTransitionTime.Time
			}
		}
		if ready(o, m) && !taken && !without[m.MoRef] && o.Now.Sub(since) >= time.Duration(o.Group.Spec.Update.MinReadySeconds)*time.Second {
			n++
		}
	}
	return n
}

// halting reports whether the guest was asked to halt.
func halting(o *plan.Observed, m plan.VM) bool {
	return o.Now.Sub(m.Shutdown.At) < time.Duration(*o.Group.Spec.Deletion.ShutdownTimeoutSeconds+60)*time.Second && m.Power == plan.PoweredOn && !m.Shutdown.At.IsZero() && m.Shutdown.Boot.Equal(m.BootTime)
}

// marks reports whether a step marks a member for one of these reasons.
func marks(a plan.Action, why ...plan.MarkReason) bool {
	return a.Op == plan.Mark && slices.Contains(why, plan.ArgsOf[plan.MarkArgs](a.Args).Reason)
}

func find(o *plan.Observed, moRef string) plan.VM {
	for _, m := range o.State.VMs {
		if m.MoRef == moRef {
			return m
		}
	}
	return plan.VM{}
}

func isQuarantined(o *plan.Observed, moRef string) bool {
	m := find(o, moRef)
	return !m.Quarantined.IsZero()
}

// store does what Metacontroller does with an answer's status, and with its children if one is a Service: no plan waits for other children.
func store(t interface{ Fatal(...any) }, o *plan.Observed, r *plan.Result) {
	o.Group = o.Group.DeepCopy()
	o.Group.Status = v1alpha1.VmGroupStatus{}
	must.Succeed(t, json.Unmarshal([]byte(asJSON(t, r.Status)), &o.Group.Status))
	if o.Group.Spec.Service != nil {
		plan.Show(o, r.Children)
	}
}

// difference shows where two texts diverge.
func difference(a, b string) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	near := func(s string) string { return s[max(0, i-150):min(len(s), i+250)] }
	return near(a) + "\n" + near(b)
}
