package world

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// kube is Kubernetes and Metacontroller: the group, its children, and earlier versions. Stored objects are replaced, never
// modified.
type kube struct {
	group    *v1alpha1.VmGroup       // nil: none exists
	versions []*v1alpha1.VmGroup     // of this group, from which calls with a stale cache take the parent
	specs    []*v1alpha1.VmGroupSpec // all specs that it has had: see at
	givenUp  []string                // the ids of the disks that the annotation gives up
	promises []int                   // how many members each of specs promises to keep working
	children map[plan.ChildKey]plan.ObservedChild
	uids     int
	// finalizing: the finalize hook was called for the group.
	finalizing bool
	finalized  []types.UID // the groups that were finalized
	// held: Metacontroller's finalizer is on the group. It is set before the first sync.
	held          bool
	unselected    bool
	finalizeAsked time.Time       // when a finalize hook was last called without a deletion
	letGo         map[string]bool // by moRef: VMs that the user held, and has released
	undone        int64           // the generation in the annotation undo-generation; 0: it isn't set
	asked         string          // the annotation try-again
}

// waitingCall is a hook call that waits in the socket of a paused replica.
type waitingCall struct {
	call plan.Call
	at   time.Time
}

func (k *kube) uid() types.UID {
	if k.group == nil {
		return ""
	}
	return k.group.UID
}

func (k *kube) deleting() bool { return k.group != nil && k.group.DeletionTimestamp != nil }

func (k *kube) store(g *v1alpha1.VmGroup) {
	k.group = g
	k.versions = append(k.versions, g)
}

// create applies the group's manifest.
func (w *world) create() {
	k := &w.kube
	k.uids++
	g := &v1alpha1.VmGroup{Spec: *w.set.spec.DeepCopy()}
	g.Namespace, g.Name, g.UID, g.Generation = "default", "web", types.UID(fmt.Sprint("uid-", k.uids)), 1
	k.versions, k.promises, k.specs, k.children = nil, nil, nil, map[plan.ChildKey]plan.ObservedChild{}
	k.finalizing, k.held, k.unselected, k.finalizeAsked, k.letGo, k.undone, k.asked = false, false, false, time.Time{}, map[string]bool{}, 0, ""
	k.adds(g, least(&g.Spec))
	w.promise = 0
}

// edit changes the spec.
func (w *world) edit(change func(*v1alpha1.VmGroupSpec)) {
	if w.kube.group == nil || w.kube.deleting() {
		return
	}
	g := *w.kube.group
	g.Spec = *g.Spec.DeepCopy()
	if change(&g.Spec); w.set.disks { // the API refuses it
		g.Spec.Standby = 0
	}
	g.Generation++
	w.kube.adds(&g, least(&g.Spec))
	w.promise = min(w.promise, least(&g.Spec))
}

func (w *world) delete() {
	if w.kube.group == nil || w.kube.deleting() {
		return
	}
	if !w.kube.held {
		w.gone()
		return
	}
	g := *w.kube.group
	now := metav1.NewTime(seconds(time.Now()))
	g.DeletionTimestamp, g.Generation = &now, g.Generation+1
	w.kube.adds(&g, 0)
	w.promise = 0
}

// call calls a hook of a replica, with the parent as it was some versions ago. Metacontroller stores the answer, unless that is
// lost or the parent was stale.
func (w *world) call(r *replica, ago int, lost bool) {
	k := &w.kube
	if k.group == nil || k.unselected && !k.held {
		return
	}
	g := k.versions[max(0, len(k.versions)-1-ago)]
	switch {
	case g.DeletionTimestamp == nil && k.finalizing:
		return // Metacontroller's cache can be out of date, but it never returns to an older version
	case g.DeletionTimestamp != nil && !k.finalizing:
		k.finalizing = true
		w.foldersAreMade()
	}
	call := plan.Call{Group: g, Finalizing: g.DeletionTimestamp != nil || k.unselected, Children: k.children}
	k.held = true
	if call.Unselected() {
		k.finalizeAsked = time.Now()
	}
	if r.paused {
		w.say("  the call waits")
		r.waiting = append(r.waiting, waitingCall{call, time.Now()})
		return
	}
	result := w.renew(r, waitingCall{call: call})
	w.settle()
	if !lost && g == k.group {
		w.stored(&result)
	}
}

// foldersAreMade waits until every replica that may still create the group's folder has seen the folder. Otherwise such a replica could
// create the folder after another replica was called to remove the group, which is a known limit (docs/design.md, "Finalize against another
// replica's lease").
func (w *world) foldersAreMade() {
	if slices.ContainsFunc(w.replicas, func(r *replica) bool {
		return r.view.folder == "" && time.Since(r.called) <= 11*time.Second
	}) {
		w.pass(11 * time.Second)
	}
	for _, s := range slices.Clone(w.steps) {
		for s.a.Op == plan.CreateFolder && slices.Contains(w.steps, s) && !s.by.paused {
			w.advance(s, well, 0)
		}
	}
}

// renew passes a call to a replica's loop.
func (w *world) renew(r *replica, c waitingCall) plan.Result {
	g := c.call.Group
	result := r.loop.Sync(w.set.defect.twistCall(r, c.call))
	if c.call.Unselected() {
		w.say("  %s is called to finalize %s, which is not being deleted; it answers finalized: %v, refusal: %v", r.name, g.UID, result.Finalized, result.Refusal != nil)
		w.checkUnselected(r, c.call, &result)
		return result
	}
	r.called = time.Now()
	if at(g) >= r.spec[g.UID] {
		r.holds = g.Annotations
		r.last = g
	}
	r.spec[g.UID] = max(r.spec[g.UID], at(g))
	if r.known[g.UID] == nil {
		r.known[g.UID] = &knowledge{}
	}
	r.known[g.UID].called(&c.call)
	if w.history != nil {
		text, err := json.Marshal(result.Status)
		sum := fnv.New32a()
		_, _ = sum.Write(text)
		st := &result.Status
		w.say("  %s is called for generation %d of %s, finalizing: %v; it answers %s %q, %d of %d ready, %d children, finalized: %v, again in %s (%08x, %v)", r.name, g.Generation, g.UID,
			c.call.Finalizing, st.Phase, st.LastMessage, st.ReadyReplicas, st.DesiredReplicas, len(result.Children), result.Finalized, result.Resync, sum.Sum32(), err)
	}
	if st := &result.Status; st.Phase != v1alpha1.PhaseRunning && strings.Contains(st.LastMessage, "successfully reconciled") {
		w.violated("%s, and the message is %q", st.Phase, st.LastMessage)
	}
	if result.Finalized {
		w.checkFinalized(g.UID)
	}
	return result
}

// holdTimeout is the longest time for which a member can be held, in seconds.
const holdTimeout = 60

// hold returns the annotations of a user who holds each member in the status. The user releases a member with an even ordinal when the
// status says that the server waits for it (heldUntil), and holds the others until the hold times out.
func (k *kube) hold(members []v1alpha1.Member) map[string]string {
	annotations := map[string]string{}
	for i := range members {
		m := &members[i]
		if k.letGo[m.MoRef] = k.letGo[m.MoRef] || !m.HeldUntil.IsZero() && m.Ordinal%2 == 0; !k.letGo[m.MoRef] {
			annotations[v1alpha1.AnnotationHold+m.MoRef] = plan.MemberName("web", m.Ordinal) + "/" + m.MoRef
		}
	}
	return annotations
}

// annotations returns the group's annotations: its holds, the disks that it gives up, and what operators ask for.
func (w *world) annotations(g *v1alpha1.VmGroup) map[string]string {
	all, k := map[string]string{}, &w.kube
	if w.set.holds {
		all = k.hold(g.Status.Members)
	}
	if len(k.givenUp) > 0 {
		all[v1alpha1.AnnotationGiveUpDisks] = strings.Join(k.givenUp, ",")
	}
	if k.undone >= g.Generation { // a user removes it once the generation is higher
		all[v1alpha1.AnnotationUndoGeneration] = fmt.Sprint(k.undone)
	}
	if k.asked != "" {
		all[v1alpha1.AnnotationTryAgain] = k.asked
	}
	return all
}

// gone removes the group.
func (w *world) gone() {
	w.say("  the group is gone")
	w.kube.finalized = append(w.kube.finalized, w.kube.group.UID)
	w.kube.group, w.kube.versions = nil, nil
}

// stored does what Metacontroller does with an answer.
func (w *world) stored(result *plan.Result) {
	k := &w.kube
	if result.Refusal != nil {
		return
	}
	if result.Finalized && !k.deleting() {
		w.say("  the group is finalized without a deletion")
		k.held = false
		return
	}
	k.children = map[plan.ChildKey]plan.ObservedChild{}
	for _, c := range result.Children {
		k.children[c.Key] = plan.ObservedChild{}
	}
	if result.Finalized {
		w.gone()
		return
	}
	g := *k.group
	g.Status = result.Status
	g.Annotations = w.annotations(&g)
	k.group = &g
	if k.versions = append(k.versions, &g); len(k.versions) > 12 {
		k.versions = slices.Delete(k.versions, 0, 1)
	}
}
