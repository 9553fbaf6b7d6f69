package inventory

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Inventory is the observed state of vCenter. Its parts are the objects that were read, the requests that the groups made, the folders of
// the groups, and the adopter, which finds out what can be adopted; it publishes what is read (Publish), and answers from memory (State and the lookups).
//
// One goroutine at a time calls Publish, with what was read of an object in the order in which it was read, so that an older
// fact never overwrites a newer one. Everything else can be called from any goroutine. Slices that it returns are
// immutable.
type Inventory struct {
	changed func(types.UID)
	// want asks for a read of a VM of which nothing is known; nil if nothing can read.
	want func(moRef string)
	// lost is called when a VM is found missing; nil if nothing finds out what became of it.
	lost func()

	mu           sync.RWMutex
	known        bool
	unknownSince time.Time   // since when it is not known, at the earliest the start; zero while it is
	fault        *plan.Fault // why it is not known
	vcenter      string
	unfit        *plan.Fault // what is wrong with the settings
	objects      objects
	folders      folders

	answers atomic.Pointer[sync.Map] // templateKey → plan.Template; made again when it may have changed

	// guestNetworks bound the addresses of guests; empty: all are allowed. They are immutable.
	guestNetworks []netip.Prefix
	// version counts the publications that changed anything. Answers about adoption are good for one version.
	version uint64
	// rebuilds counts the times that a group's VMs were listed again.
	rebuilds uint64

	requests requests
	adopter  adopter
}

// New returns an empty inventory, of which nothing is known. changed can be nil.
func New(changed func(types.UID)) *Inventory {
	if changed == nil {
		changed = func(types.UID) {}
	}
	n := &Inventory{changed: changed, unknownSince: time.Now()}
	n.adopter.objects = &n.objects
	n.folders.objects, n.folders.requests = &n.objects, &n.requests
	n.clear()
	return n
}

// Of returns an inventory with the adoption rules and guest networks of a selection.
func Of(selection Selection, changed func(types.UID)) *Inventory {
	n := New(changed)
	n.adopter.cluster, n.adopter.adoptFrom, n.guestNetworks = selection.ClusterID, newAdoptFolders(selection.AdoptFrom), selection.GuestNetworks
	return n
}

func (n *Inventory) clear() {
	n.objects = newObjects()
	n.answers.Store(&sync.Map{})
	n.requests.clear()
}

// SetKnown declares that everything was published, and that changes will follow.
func (n *Inventory) SetKnown() { n.setKnown(true, nil) }

// IsKnown reports whether the facts are complete and fresh.
func (n *Inventory) IsKnown() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.known
}

// Health says whether the facts are complete and fresh, and if not, why, and what in the settings blocks.
func (n *Inventory) Health() plan.Health {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return plan.Health{Known: n.known, UnknownSince: n.unknownSince, Fault: n.fault, Unfit: n.unfit, VCenter: n.vcenter}
}

// setUnknown declares that changes are missed from now on. The facts stay as they were.
func (n *Inventory) setUnknown(why *plan.Fault) (was bool) { return n.setKnown(false, why) }

// setKnown reports whether that changed.
func (n *Inventory) setKnown(known bool, fault *plan.Fault) bool {
	n.mu.Lock()
	was, same := n.known, n.known == known && equalFault(n.fault, fault)
	if known {
		n.unknownSince = time.Time{}
	} else if was {
		n.unknownSince = time.Now()
	}
	n.known, n.fault = known, fault
	n.mu.Unlock()
	if !same {
		n.changed("")
	}
	return was != known
}

// explain tells why the inventory is unknown, if it is.
func (n *Inventory) explain(why *plan.Fault) {
	n.mu.RLock()
	known := n.known
	n.mu.RUnlock()
	if !known {
		n.setUnknown(why)
	}
}

// SetSettings sets what the settings name, or what is wrong with them.
func (n *Inventory) SetSettings(s *Settings, unfit *plan.Fault) {
	n.mu.Lock()
	same := equalFault(n.unfit, unfit) && (s == nil) == (n.folders.settings == nil) &&
		(s == nil || s.Root == n.folders.settings.Root && s.Datacenter == n.folders.settings.Datacenter)
	n.folders.settings, n.unfit = s, unfit // while they do not fit, the groups' folders are where they were
	if s != nil {
		n.folders.own = &GroupFolder{datacenter: s.Datacenter.Value, name: s.datacenterName, VMFolder: s.VMFolder.Value, Root: s.Root.Value,
			Path: canonicalPath(s.path)}
	}
	n.requests.mu.Lock()
	clear(n.requests.placements)
	n.requests.mu.Unlock()
	n.answers.Store(&sync.Map{})
	n.version++
	n.mu.Unlock()
	if !same {
		n.changed("")
	}
}

func equalFault(a, b *plan.Fault) bool { return a == b || a != nil && b != nil && *a == *b }

// Settings returns what the settings name, or what is wrong with them.
func (n *Inventory) Settings() (*Settings, *plan.Fault) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.folders.settings, n.unfit
}

// fits reports whether everything that the settings name was found.
func (n *Inventory) fits() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.unfit == nil && n.folders.own != nil
}

// VCenter returns the instanceUuid of the vCenter that was read.
func (n *Inventory) VCenter() string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.vcenter
}

// Counts are how many VMs of each kind are known.
type Counts struct {
	Members, Unmanaged, Groups, Places int
	// StampsUnknown are VMs with a stamp of a version that this server does not know.
	StampsUnknown int
	// Candidates are the unmanaged VMs that a group wants to adopt.
	Candidates int
}

// Count counts what is known.
func (n *Inventory) Count() Counts {
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	return Counts{len(n.objects.members), len(n.objects.unmanaged), len(n.objects.groups), len(n.objects.places.byRef), n.objects.unknown, len(n.requests.adoptCandidates)}
}
