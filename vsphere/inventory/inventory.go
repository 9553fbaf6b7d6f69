package inventory

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Inventory is the observed state of vCenter: what was read, under one lock, and what is remembered beside that, in parts with locks of their own.
// Publish takes readings in; State and the lookups answer from memory.
//
// One goroutine at a time calls Publish, with the readings of an object in the order in which they were made, so that an older
// fact never overwrites a newer one. All other methods can be called from any goroutine. Slices that they return are
// immutable.
type Inventory struct {
	changed func(types.UID)
	// want asks the reader to read a VM of which nothing is known; nil without a reader.
	want func(moRef string)
	// guestNetworks are the networks whose addresses members can have; if empty, all are allowed. They are immutable.
	guestNetworks []netip.Prefix

	mu           sync.RWMutex // guards the fields from known to rebuilds
	known        bool
	unknownSince time.Time // when known became false, at the earliest the start of the process; zero while known is true
	// knownSince is when known became true last.
	knownSince time.Time
	fault      *plan.Fault // why known is false
	vcenter    string
	unfit      *plan.Fault // what is wrong with the settings
	objects    objects
	folders    folders
	// version counts the publications that changed anything. An answer about adoption is valid for one version.
	version uint64
	// rebuilds counts the times that a group's VMs were listed again.
	rebuilds uint64

	answers atomic.Pointer[sync.Map] // templateKey → plan.Template; replaced by an empty map when an answer may have changed

	// Evidence shows whose a VM with a stamp is. MissingVMs are the members that vCenter no longer has.
	Evidence     Evidence
	MissingVMs   MissingVMs
	Meanings     Meanings     // what the names in groups' specs mean
	requesters   requesters   // which groups ask for folders, and where these are
	ruleRequests ruleRequests // which groups want DRS rules
	awaited      awaitedReads // the VMs that the reader was asked to read
	unreported   unreported   // the objects that the stream may not have reported
	adoptions    adoptions    // the VMs that groups want to adopt
	adopter      adopter      // decides which of them a group can adopt; it has no state
}

// New returns an empty, unknown inventory. It calls changed with the UID of each group for which something changed, "" for all groups;
// changed can be nil.
func New(changed func(types.UID)) *Inventory {
	if changed == nil {
		changed = func(types.UID) {}
	}
	n := &Inventory{changed: changed, unknownSince: time.Now()}
	n.Evidence.changed, n.MissingVMs.changed = changed, changed
	n.adopter.objects, n.adopter.evidence = &n.objects, &n.Evidence
	n.folders.objects, n.folders.requesters = &n.objects, &n.requesters
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
	n.Evidence.reset()
	n.MissingVMs.reset()
	n.Meanings.reset()
	n.requesters.reset()
	n.ruleRequests.reset()
	n.awaited.reset()
	n.unreported.reset()
	n.adoptions.reset()
}

// SetKnown declares that all of vCenter was published, and that each later change will be.
func (n *Inventory) SetKnown() { n.setKnown(true, nil) }

// IsKnown reports whether the facts are complete and fresh.
func (n *Inventory) IsKnown() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.known
}

// Health returns whether the facts are complete and fresh, why they are not, and what is wrong with the settings.
func (n *Inventory) Health() plan.Health {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return plan.Health{Known: n.known, UnknownSince: n.unknownSince, Fault: n.fault, Unfit: n.unfit, VCenter: n.vcenter}
}

// setUnknown declares that the inventory misses changes from now on. It keeps the facts that it has.
func (n *Inventory) setUnknown(why *plan.Fault) (was bool) { return n.setKnown(false, why) }

// setKnown sets known, and reports whether that changed it.
func (n *Inventory) setKnown(known bool, fault *plan.Fault) bool {
	n.mu.Lock()
	was, same := n.known, n.known == known && equalFault(n.fault, fault)
	if known && !was {
		n.knownSince = time.Now()
	}
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
	n.folders.settings, n.unfit = s, unfit // while the settings do not fit, groups keep their folders
	if s != nil {
		n.folders.own = &GroupFolder{datacenter: s.Datacenter.Value, name: s.datacenterName, VMFolder: s.VMFolder.Value, Root: s.Root.Value,
			Path: canonicalPath(s.path)}
	}
	n.requesters.forgetFolders()
	n.answers.Store(&sync.Map{})
	n.version++
	n.mu.Unlock()
	if !same {
		n.changed("")
	}
}

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
	return Counts{len(n.objects.members), len(n.objects.unmanaged), len(n.objects.groups), len(n.objects.places.byRef), n.objects.unknown, len(n.adoptions.refs())}
}
