package inventory

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// Inventory is the observed state of vCenter, indexed for State: members by group, templates by name, folders by
// place, and of all other VMs only a name and a place.
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
	unknownSince time.Time   // since when it is no longer known; zero if it is, or never was
	fault        *plan.Fault // why it is not known
	vcenter      string
	settings     *Settings
	own          *GroupFolder // where the settings say, or last said, that groups have their folders; nil if they never did
	unfit        *plan.Fault  // what is wrong with the settings

	members    map[string]*Member
	groups     map[types.UID]*group
	unmanaged  map[string]unmanagedVM
	unreadable map[string]bool     // those others whose owner is unclear
	templates  map[string][]string // moRefs by name, as people write it
	places     *places
	clusters   clusters
	gone       goneSet
	unknown    int // VMs with a stamp of a version that this server does not know

	answers atomic.Pointer[sync.Map] // templateKey → plan.Template; made again when it may have changed

	// cluster and adoptFrom say whose VMs, and from where VMs, may be adopted. They are immutable.
	cluster   string
	adoptFrom adoptFolders
	// guestNetworks bound the addresses of guests; empty: all are allowed. They are immutable.
	guestNetworks []netip.Prefix
	// version counts the publications that changed anything. Answers about adoption are good for one version.
	version uint64
	// rebuilds counts the times that a group's VMs were listed again.
	rebuilds uint64

	interest sync.Mutex
	// requesters are the groups that asked for a folder lately, by namespace and name;
	// askedBefore, those of the time before.
	requesters, formerRequesters map[placeKey]requester
	placements                   map[plan.Home]*GroupFolder // but for that of the settings
	awaited                      map[string]awaited         // VMs that a read was asked for
	unheard                      map[string]bool            // what the stream may not have reported: see unwatched
	missing                      missingSet
	adoptions                    map[types.UID]*adoption
	adoptCandidates              map[string]*adoptCandidate // unmanaged VMs that a group wants to adopt
	glimpses                     map[string]glimpsed        // and those that somebody asked about who only looks
	ruleRequests                 map[types.UID]bool         // groups that asked for DRS rules lately
	ruleChecks                   map[types.UID]ruleCheck    // whether a group's rules are off
}

// awaited is a VM that a read was asked for: what a group's status says of it.
type awaited struct {
	uid      types.UID
	recorded v1alpha1.Member
	kept     bool // in quarantine
}

// Member is a VM with a valid stamp.
type Member struct {
	Machine
	Stamp  stamp.Stamp
	ReadAt time.Time // when the reading began that it is from
}

// group is the members of one group.
type group struct {
	namespace, name, cluster string
	refs                     map[string]*Member
	vms                      []plan.VM // immutable
	placements               []string  // that the stamps name; nil if all name that of the settings
	version                  uint64    // changes whenever one of its members was read
}

// unmanagedVM is a VM that is no group's member.
type unmanagedVM struct {
	name, parent string
	template     bool
	contents     string // the fingerprint of a template's disks
	host         string // of a template: its moRef
	// unreadable: its owner is unclear, because its configuration is unreadable or its stamp of an unknown version.
	unreadable bool
	// unknown: it has a stamp of an unknown version.
	unknown bool
	// unstampedAt is when its stamp was seen to be taken off; zero if it has had none since it is known.
	unstampedAt time.Time
	// instanceUUID distinguishes it from another VM that has its moRef later; empty if unknown.
	instanceUUID string
}

// New returns an empty inventory, of which nothing is known. changed can be nil.
func New(changed func(types.UID)) *Inventory {
	if changed == nil {
		changed = func(types.UID) {}
	}
	n := &Inventory{changed: changed}
	n.clear()
	return n
}

// Of returns an inventory with the adoption rules and guest networks of a selection.
func Of(selection Selection, changed func(types.UID)) *Inventory {
	n := New(changed)
	n.cluster, n.adoptFrom, n.guestNetworks = selection.ClusterID, newAdoptFolders(selection.AdoptFrom), selection.GuestNetworks
	return n
}

func (n *Inventory) clear() {
	n.members = map[string]*Member{}
	n.groups = map[types.UID]*group{}
	n.unmanaged, n.unreadable = map[string]unmanagedVM{}, map[string]bool{}
	n.templates = map[string][]string{}
	n.places = newPlaces(0)
	n.clusters = clusters{}
	n.gone = goneSet{}
	n.unknown = 0
	n.answers.Store(&sync.Map{})
	n.interest.Lock()
	n.requesters, n.formerRequesters = map[placeKey]requester{}, map[placeKey]requester{}
	n.placements, n.awaited, n.unheard = map[plan.Home]*GroupFolder{}, map[string]awaited{}, map[string]bool{}
	n.missing = missingSet{all: map[plan.VMID]*Missing{}, by: map[string]plan.Actor{}}
	n.adoptions, n.adoptCandidates = map[types.UID]*adoption{}, map[string]*adoptCandidate{}
	n.glimpses = map[string]glimpsed{}
	n.ruleRequests, n.ruleChecks = map[types.UID]bool{}, map[types.UID]ruleCheck{}
	n.interest.Unlock()
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

// SetSettings sets what the settings name, or what is wrong with them.
func (n *Inventory) SetSettings(s *Settings, unfit *plan.Fault) {
	n.mu.Lock()
	same := equalFault(n.unfit, unfit) && (s == nil) == (n.settings == nil) &&
		(s == nil || s.Root == n.settings.Root && s.Datacenter == n.settings.Datacenter)
	n.settings, n.unfit = s, unfit // while they do not fit, the groups' folders are where they were
	if s != nil {
		n.own = &GroupFolder{datacenter: s.Datacenter.Value, name: s.datacenterName, VMFolder: s.VMFolder.Value, Root: s.Root.Value,
			Path: canonicalPath(s.path)}
	}
	n.interest.Lock()
	clear(n.placements)
	n.interest.Unlock()
	n.answers.Store(&sync.Map{})
	n.version++
	n.mu.Unlock()
	if !same {
		n.changed("")
	}
}

func equalFault(a, b *plan.Fault) bool { return a == b || a != nil && b != nil && *a == *b }
