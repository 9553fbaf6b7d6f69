package inventory

import (
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Reading is the result of one read of vCenter. The inventory is made of readings, in the order in which they began.
type Reading struct {
	// VCenter is the instanceUuid of the vCenter that answered.
	VCenter string
	// Began is when it began, by our clock.
	Began time.Time
	// Complete reports whether everything was read, in this reading and in those before it that showed what Seen has, by moRef: an
	// unmanaged VM or a folder that is in neither is forgotten. (A member is not: only Gone tells that one has left.)
	Complete bool
	Seen     map[string]bool
	Machines []Machine
	Places   []Place
	// Clusters are all clusters; nil if they were not read.
	Clusters []Cluster
	// Gone are the moRefs that vCenter answered with ManagedObjectNotFound.
	Gone []string
	// WithoutNet are the moRefs of Machines whose guests report more of their adapters than can be read.
	WithoutNet []string
	// Off are the moRefs of members that a task of this server has powered off.
	Off []string
}

// Machine is a VM or a template as it was read. The fields of VM that come from the stamp (ordinal, revision, …) are not set.
type Machine struct {
	plan.VM
	// Parent is the moRef of the folder or vApp it is in.
	Parent string
	// Template reports whether it is a template; then Contents is the fingerprint of its disks; empty if unknown.
	Template bool
	Contents string
	// CoresPerSocket of its virtual CPUs; 0 if unknown. AutoCores reports whether vCenter chooses them at each power-on: then they
	// mean nothing for a VM that is off, and setting them would end that ([doc] VirtualHardware.autoCoresPerSocket,
	// VirtualMachineConfigSpec.numCoresPerSocket).
	CoresPerSocket int32
	AutoCores      bool
	// NumDisks is how many virtual disks are attached to it; 0 if not known.
	NumDisks int32
	// NamedHome reports whether the directory of its files is named after it; false if not known.
	NamedHome bool
	// HostRef is the moRef of the host that it is on; empty if not known.
	HostRef string
	// Readable is false when its configuration could not be read: it is being created, its files are out of reach,
	// or a privilege was lost. Then its owner is unclear.
	Readable bool
	// Whole reports whether all properties that a member needs were read, and not only those that tell its owner.
	Whole bool
	// firstIPs are those of its addresses that its first network adapter has.
	firstIPs []string
	// InstanceUUID and Stamp are its own; Stamp is empty if it has none.
	InstanceUUID, StampText string
}

// Cluster is a cluster, or the ComputeResource of a standalone host.
type Cluster struct {
	MoRef, Name string
	// Standalone reports whether it is of a standalone host. DRS reports whether DRS is on.
	Standalone, DRS bool
	// Level is the automation level of DRS, and Levels are those of single VMs, by moRef: "" for one that DRS leaves alone.
	Level  vim.DrsBehavior
	Levels map[string]vim.DrsBehavior
	// Unread reports whether its configuration could not be read.
	Unread bool
	// Hosts are the moRefs of its hosts, in order.
	Hosts []string
	// Rules are those of our kind, ordered by key, and VMGroups those that they name, ordered by name.
	Rules    []Rule
	VMGroups []VMGroup
	// HostGroups are the names of the DRS host groups that have hosts, as vCenter has them, in order.
	HostGroups []string
}

// VMGroup is a DRS VM group of members that run on the same host group.
type VMGroup struct {
	// UID is the VmGroup's, from the name.
	UID            types.UID
	Name, UniqueID string
	UserCreated    *bool
	// VMs are moRefs, in order.
	VMs []string
}

// Rule is a DRS rule that keeps a group's VMs on different hosts or, if it names a host group, the VMs of a VM group there.
type Rule struct {
	// UID is the group's, from the rule's name.
	UID  types.UID
	Name string
	// Key and UUID are vCenter's; 0 and empty for a rule that does not exist yet.
	Key                int32
	UUID               string
	Enabled, Mandatory bool
	UserCreated        *bool
	// VMs are moRefs, in order.
	VMs []string
	// ForHosts reports whether it is one for a host group; then VMGroup, and no VMs, and HostGroup are set.
	ForHosts           bool
	VMGroup, HostGroup string
}

// Place is a container of VMs: a folder, a datacenter or a vApp.
type Place struct {
	MoRef, Kind, Name, Parent string
}
