package inventory

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Meanings are what the names in groups' specs mean: by the groups' statuses, and as steps have found it since. Groups that don't ask again are forgotten.
type Meanings struct {
	mu sync.Mutex
	// now are the groups that asked since the last forgetUnasked, and before those that asked in the period before.
	now, before map[types.UID]meaning
}

// meaning is what names of one group mean. Its slices are immutable.
type meaning struct{ recorded, found []v1alpha1.NamedObject }

// reset forgets everything, because vCenter is another one.
func (m *Meanings) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now, m.before = map[types.UID]meaning{}, map[types.UID]meaning{}
}

// Of returns what the names of a group mean, as far as it is known.
func (m *Meanings) Of(uid types.UID) []v1alpha1.NamedObject {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.of(uid)
	return slices.Concat(x.found, x.recorded) // a reader takes the first
}

// Note notes what a step has found for a group.
func (m *Meanings) Note(uid types.UID, found []v1alpha1.NamedObject) {
	if len(found) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.of(uid)
	all := slices.DeleteFunc(slices.Clone(x.found), func(old v1alpha1.NamedObject) bool {
		return slices.ContainsFunc(found, func(f v1alpha1.NamedObject) bool { return f.IsOf(&old) })
	})
	x.found = without(append(all, found...), x.recorded)
	m.now[uid] = x
}

// ask takes over what a group's status says, and returns what was found since.
func (m *Meanings) ask(uid types.UID, recorded []v1alpha1.NamedObject) []v1alpha1.NamedObject {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.of(uid)
	if x.recorded = recorded; len(x.found) > 0 {
		x.found = without(slices.Clone(x.found), recorded)
	}
	if len(recorded)+len(x.found) > 0 {
		m.now[uid] = x
	}
	return x.found
}

func (m *Meanings) of(uid types.UID) meaning {
	if x, known := m.now[uid]; known {
		return x
	}
	return m.before[uid]
}

// without drops from found what is recorded.
func without(found, recorded []v1alpha1.NamedObject) []v1alpha1.NamedObject {
	return slices.DeleteFunc(found, func(f v1alpha1.NamedObject) bool {
		return slices.ContainsFunc(recorded, func(r v1alpha1.NamedObject) bool { return r.Equal(&f) })
	})
}

func (m *Meanings) forgetUnasked() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now, m.before = m.before, m.now
	clear(m.now)
}
