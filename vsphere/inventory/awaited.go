package inventory

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// awaitedReads are the VMs of which nothing is known and that the reader was asked to read.
type awaitedReads struct {
	mu  sync.Mutex
	all map[string]awaited // by moRef
}

// awaited is a VM that the reader was asked to read, with its record in the group's status.
type awaited struct {
	uid      types.UID
	recorded v1alpha1.Member
	kept     bool // in quarantine
}

// reset forgets everything, because vCenter is another one.
func (x *awaitedReads) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = map[string]awaited{}
}

// add adds a VM, and reports whether its read wasn't awaited before.
func (x *awaitedReads) add(a awaited) (fresh bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, had := x.all[a.recorded.MoRef]; had {
		return false
	}
	x.all[a.recorded.MoRef] = a
	return true
}

// has reports whether a VM is being read.
func (x *awaitedReads) has(moRef string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, is := x.all[moRef]
	return is
}

// take removes a VM that was read.
func (x *awaitedReads) take(moRef string) (a awaited, asked bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a, asked = x.all[moRef]
	delete(x.all, moRef)
	return a, asked
}
