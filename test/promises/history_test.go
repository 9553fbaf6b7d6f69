//go:build unix

package promises

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// applied is a spec that was applied, or the group's deletion.
type applied struct {
	spec    v1alpha1.VmGroupSpec
	deleted bool
}

// history records the acts of users and administrators on which the server might still act: the specs since the group last matched one.
// Its methods can be called from several goroutines.
type history struct {
	mu      sync.Mutex
	specs   []applied
	touched map[string]bool // by moRef: all VMs that an administrator ever changed
	acts    int             // how many changes administrators made since the group was settled
	broken  []string        // a text for each broken promise
}

func (h *history) applied(spec v1alpha1.VmGroupSpec, deleted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.specs = append(h.specs, applied{*spec.DeepCopy(), deleted})
}

// touch is called before an administrator changes a VM.
func (h *history) touch(ref string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.touched == nil {
		h.touched = map[string]bool{}
	}
	h.touched[ref] = true
	h.acts++
}

// settled forgets all specs but the last, because the group matches the last spec, or waits for an operator.
func (h *history) settled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.specs, h.acts = h.specs[len(h.specs)-1:], 0
}

// broke notes that a promise was broken.
func (h *history) broke(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = append(h.broken, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (h *history) violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.broken)
}

// window returns the specs on which the server might act, whether administrators changed a VM, and how often they changed one since the
// group was settled.
func (h *history) window() (specs []applied, touched func(ref string) bool, acts int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.specs), func(ref string) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.touched[ref]
	}, h.acts
}

// templates maps the names of vCenter's templates to their guest IDs, by which the tests recognize the template of a VM.
var templates = map[string]string{"vm-operator-template": "debian11_64Guest", "vm-operator-template-2": "ubuntu64Guest"}

// wanted is how many VMs the spec asks for.
func (a applied) wanted() int {
	if a.spec.Paused {
		return math.MaxInt // no member may be taken down
	}
	if a.deleted && a.spec.Deletion.Policy != v1alpha1.DeletionRetain {
		return 0
	}
	return int(*a.spec.Replicas + a.spec.Standby)
}

// replaces reports whether the spec asks to replace this VM, or the deletion to remove it.
func (a applied) replaces(v vm) bool {
	if a.deleted {
		return a.spec.Deletion.Policy != v1alpha1.DeletionRetain || !v.on // Retain keeps members, and removes standby members, because they never ran
	}
	if slices.ContainsFunc(a.spec.Replace, func(r v1alpha1.Replacement) bool { return r.MoRef == v.ref }) {
		return a.possible()
	}
	differs := v.from != templates[a.spec.Template] || a.spec.Update.Resize == v1alpha1.ResizeReplace && a.resizes(v)
	rolls := a.rolls() || !v.on && a.spec.Standby > 0 // an edit reaches standby members first
	return rolls && a.possible() && differs
}

// resizes reports whether the spec asks for another size of this VM.
func (a applied) resizes(v vm) bool {
	return v.cpu != a.spec.CPU || v.memoryMB != a.spec.Memory*1024
}

// rolls reports whether the spec lets an update begin.
func (a applied) rolls() bool {
	return !a.spec.Paused && !a.spec.Update.Paused && a.spec.Update.Strategy != v1alpha1.UpdateOnDelete
}

// possible reports whether new members can be made from the spec.
func (a applied) possible() bool {
	return templates[a.spec.Template] != "" && a.spec.Placement.Datastore == "" && a.spec.Placement.Pool == ""
}

// floor is how many members must serve at any time: replicas less maxUnavailable.
func (a applied) floor() int {
	if a.deleted && a.spec.Deletion.Policy != v1alpha1.DeletionRetain {
		return 0
	}
	replicas := int(*a.spec.Replicas)
	surge := limit(a.spec.Update.MaxSurge, "25%", replicas, true)
	unavailable := limit(a.spec.Update.MaxUnavailable, "25%", replicas, false)
	if a.spec.HasPersistentDisks() {
		surge = 0
	}
	if surge == 0 {
		unavailable = max(unavailable, 1)
	}
	return max(replicas-unavailable, 0)
}

func limit(l *intstr.IntOrString, otherwise string, of int, up bool) int {
	if l == nil {
		text := intstr.FromString(otherwise)
		l = &text
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(l, of, up)
	if err != nil {
		panic(err) // a bug of the suite
	}
	return n
}
