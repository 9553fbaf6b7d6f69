package inventory

import (
	"net/netip"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Reading is the result of one read of vCenter. The inventory is made of readings, in the order in which they began.
type Reading struct {
	// VCenter is the instanceUuid of the vCenter that answered.
	VCenter string
	// Began is when the read began, by this machine's clock.
	Began time.Time
	// Complete reports whether this reading ends a read of everything. Seen then has the moRefs that its earlier readings showed: the
	// inventory forgets unmanaged VMs and folders that are neither in Seen nor in this reading. (It doesn't forget a member: only Gone shows
	// that one has left.)
	Complete bool
	Seen     map[string]bool
	Machines []Machine
	Places   []Place
	// Clusters are all clusters; nil if they were not read.
	Clusters []Cluster
	// Gone are the moRefs that vCenter answered with ManagedObjectNotFound.
	Gone []string
	// WithoutNet are the moRefs of Machines whose guests report more about their adapters than the server reads in one answer.
	WithoutNet []string
	// Off are the moRefs of members that a task of this server has powered off.
	Off []string
	// guestNetworks are the networks whose addresses Machines can have; if empty, all.
	guestNetworks []netip.Prefix
}

// Machine is a VM or a template as it was read. The fields of VM that come from the stamp (ordinal, revision, …) are not set.
type Machine struct {
	plan.VM
	// Parent is the moRef of the folder or vApp that contains the VM.
	Parent string
	// Template reports whether it is a template. Contents is the fingerprint of a template's disks; empty if unknown.
	Template bool
	Contents string
	// CoresPerSocket is the number of cores of each virtual socket; 0 if unknown. AutoCores reports whether vCenter chooses it at each
	// power-on: then CoresPerSocket of a VM that is off is not meaningful, and a reconfigure that sets it would turn AutoCores off ([doc]
	// VirtualHardware.autoCoresPerSocket, VirtualMachineConfigSpec.numCoresPerSocket).
	CoresPerSocket int32
	AutoCores      bool
	// NumDisks is how many virtual disks are attached to it; 0 if not known.
	NumDisks int32
	// NamedHome reports whether the directory of the VM's files has the VM's name; false if not known.
	NamedHome bool
	// HostRef is the moRef of the VM's host; empty if not known.
	HostRef string
	// Readable is false if the VM's configuration could not be read: the VM is being created, its files are out of reach, or the account lost
	// a privilege. Then its owner is unclear.
	Readable bool
	// Whole reports whether all properties that a member needs were read, and not only those that show the VM's owner.
	Whole bool
	// firstIPs are the addresses of the VM's first network adapter.
	firstIPs []string
	// InstanceUUID and StampText are config.instanceUuid and the text at the stamp's key; StampText is empty if there is none.
	InstanceUUID, StampText string
}

// Cluster is a cluster, or the ComputeResource of a standalone host.
type Cluster struct {
	MoRef, Name string
	// Standalone reports whether this is the ComputeResource of a standalone host. DRS reports whether DRS is on.
	Standalone, DRS bool
	// Level is the automation level of DRS. Levels are the levels of single VMs that override it, by moRef: "" if DRS is disabled for the VM.
	Level  vim.DrsBehavior
	Levels map[string]vim.DrsBehavior
	// Unread reports whether the cluster's configuration could not be read.
	Unread bool
	// Hosts are the moRefs of the cluster's hosts, in order.
	Hosts []string
	// Rules are the DRS rules that servers made for groups, ordered by key. VMGroups are the DRS VM groups that servers made, ordered by name.
	Rules    []Rule
	VMGroups []VMGroup
	// HostGroups are the names of the DRS host groups that have hosts, as vCenter has them, in order.
	HostGroups []string
}

// VMGroup is a DRS VM group of members that run on the same host group.
type VMGroup struct {
	// UID is that of the VmGroup, from the DRS VM group's name.
	UID            types.UID
	Name, UniqueID string
	UserCreated    *bool
	// VMs are moRefs, in order.
	VMs []string
}

// Rule is a DRS rule that keeps a group's VMs on different hosts or, if it names a host group, the VMs of a VM group there.
type Rule struct {
	// UID is that of the VmGroup, from the rule's name.
	UID  types.UID
	Name string
	// Key and UUID are vCenter's; 0 and empty for a rule that does not exist yet.
	Key                int32
	UUID               string
	Enabled, Mandatory bool
	UserCreated        *bool
	// VMs are moRefs, in order.
	VMs []string
	// ForHosts reports whether it is a VM-host rule: then it has VMGroup and HostGroup, and no VMs.
	ForHosts           bool
	VMGroup, HostGroup string
}

// Place is a container of VMs: a folder, a datacenter or a vApp.
type Place struct {
	MoRef, Kind, Name, Parent string
}
