package inventory

import (
	"cmp"
	"slices"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// hidden is Machine.Unreachable of a VM that exists but that the server's account no longer sees.
const hidden = "hidden"

// hide adds the VMs that a read asked for and vCenter's answer left out, as hidden: the answer says neither that they exist nor that they
// are gone.
func (r *Reading) hide(refs []types.ManagedObjectReference) {
	answered := make(map[string]bool, len(r.Machines))
	for i := range r.Machines {
		answered[r.Machines[i].MoRef] = true
	}
	for _, ref := range refs {
		if ref.Type == "VirtualMachine" && !answered[ref.Value] {
			r.Machines = append(r.Machines, Machine{VM: plan.VM{MoRef: ref.Value, Unreachable: hidden}})
		}
	}
}

func (r *Reading) decode(objects []types.ObjectContent) {
	hosts := map[string]string{}
	for i := range objects {
		if o := &objects[i]; o.Obj.Type == "HostSystem" {
			for _, p := range o.PropSet {
				hosts[o.Obj.Value], _ = p.Val.(string)
			}
		}
	}
	for i := range objects {
		switch o := &objects[i]; o.Obj.Type {
		case "HostSystem":
		case "VirtualMachine":
			r.Machines = append(r.Machines, decodeMachine(o, hosts))
		default:
			r.Places = append(r.Places, decodePlace(o))
		}
	}
}

func decodePlace(o *types.ObjectContent) Place {
	p := Place{MoRef: o.Obj.Value, Kind: o.Obj.Type}
	for _, x := range o.PropSet {
		switch v := x.Val.(type) {
		case string:
			p.Name = v
		case types.ManagedObjectReference:
			p.Parent = v.Value
		}
	}
	return p
}

func decodeClusters(objects []types.ObjectContent) []Cluster {
	all := make([]Cluster, 0, len(objects))
	for i := range objects {
		all = append(all, decodeCluster(&objects[i]))
	}
	return all
}

func decodeCluster(o *types.ObjectContent) Cluster {
	c := Cluster{MoRef: o.Obj.Value, Standalone: o.Obj.Type != "ClusterComputeResource"}
	c.Unread = !c.Standalone
	for _, p := range o.PropSet {
		switch v := p.Val.(type) {
		case string:
			c.Name = v
		case types.ArrayOfManagedObjectReference:
			for _, host := range v.ManagedObjectReference {
				c.Hosts = append(c.Hosts, host.Value)
			}
		case types.ClusterConfigInfoEx:
			c.Unread = false
			c.takeAutomation(&v)
			c.Rules = decodeRules(v.Rule)
			c.VMGroups, c.HostGroups = decodeGroups(v.Group), HostGroups(&v)
		}
	}
	slices.Sort(c.Hosts)
	return c
}

// decodeRules decodes the rules that a server made for a group, and leaves out all others.
func decodeRules(rules []types.BaseClusterRuleInfo) (ours []Rule) {
	for _, info := range rules {
		if info == nil { // of a type that govmomi doesn't know
			continue
		}
		r := info.GetClusterRuleInfo()
		x := Rule{UID: stamp.RuleOwner(r.Name), Name: r.Name, Key: r.Key, UUID: r.RuleUuid, UserCreated: r.UserCreated,
			Enabled: r.Enabled != nil && *r.Enabled, Mandatory: r.Mandatory != nil && *r.Mandatory}
		switch kind := info.(type) {
		case *types.ClusterAntiAffinityRuleSpec:
			x.VMs = sortedMoRefs(kind.Vm)
		case *types.ClusterVmHostRuleInfo:
			x.ForHosts, x.VMGroup, x.HostGroup = true, kind.VmGroupName, kind.AffineHostGroupName
		default:
			continue
		}
		if x.UID != "" {
			ours = append(ours, x)
		}
	}
	slices.SortFunc(ours, func(a, b Rule) int { return cmp.Compare(a.Key, b.Key) })
	return ours
}

// decodeGroups decodes the DRS VM groups that a server made for a group, and leaves out all others.
func decodeGroups(groups []types.BaseClusterGroupInfo) (ours []VMGroup) {
	for _, info := range groups {
		if g, is := info.(*types.ClusterVmGroup); is && stamp.RuleOwner(g.Name) != "" {
			ours = append(ours, VMGroup{UID: stamp.RuleOwner(g.Name), Name: g.Name, UniqueID: g.UniqueID, UserCreated: g.UserCreated, VMs: sortedMoRefs(g.Vm)})
		}
	}
	slices.SortFunc(ours, func(a, b VMGroup) int { return cmp.Compare(a.Name, b.Name) })
	return ours
}

func sortedMoRefs(refs []types.ManagedObjectReference) (values []string) {
	for _, ref := range refs {
		values = append(values, ref.Value)
	}
	slices.Sort(values)
	return values
}

// HostGroups returns the names of a cluster's DRS host groups that have hosts, as vCenter has them, in order: a rule needs one with hosts ([doc]
// ClusterVmHostRuleInfo).
func HostGroups(c *types.ClusterConfigInfoEx) (names []string) {
	for _, info := range c.Group {
		if g, is := info.(*types.ClusterHostGroup); is && len(g.Host) > 0 {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return names
}

func decodeMachine(o *types.ObjectContent, hosts map[string]string) Machine {
	m := Machine{VM: plan.VM{MoRef: o.Obj.Value}}
	var state, primary string
	var nics []types.GuestNicInfo
	for _, p := range o.PropSet { // a property that vCenter leaves unset is not in PropSet, so its field stays unknown
		switch v := p.Val.(type) {
		case string:
			if p.Name == "guest.ipAddress" {
				primary = v
			} else {
				m.takeText(p.Name, v)
			}
		case bool:
			m.takeFlag(p.Name, v)
		case *bool:
			m.takeFlag(p.Name, *v)
		case int32:
			m.takeNumber(p.Name, int64(v))
		case *int32:
			m.takeNumber(p.Name, int64(*v))
		case int64:
			m.takeNumber(p.Name, v)
		case time.Time:
			m.Boot = v.UTC()
		case *time.Time:
			m.Boot = v.UTC()
		case types.ManagedObjectReference:
			if p.Name == "runtime.host" {
				m.Host, m.HostRef = hosts[v.Value], v.Value
				break
			}
			m.Parent = v.Value // parent is unset in a vApp, and parentVApp elsewhere
			if p.Name == "parent" {
				m.Folder = v.Value
			}
		case types.OptionValue:
			m.StampText, _ = v.Value.(string)
		case types.VirtualMachineConnectionState:
			state = string(v)
		case types.VirtualMachinePowerState:
			m.Power = plan.PowerState(v)
		case types.VirtualMachineQuestionInfo:
			m.Question = questionText(&v)
		case types.GuestInfoCustomizationInfo:
			m.Customization = guest.CustomizationOf(&v)
		case types.ArrayOfGuestNicInfo:
			nics = v.GuestNicInfo
		}
	}
	m.IPs, m.firstIPs = AddressesOf(primary, nics), addressesOfFirst(nics)
	m.setReachable(state, o.MissingSet)
	return m
}

// setReachable decides whether the VM is reachable, from its connection state and the properties that vCenter withheld.
func (m *Machine) setReachable(state string, missing []types.MissingProperty) {
	m.Readable = m.InstanceUUID != ""
	lost := false
	for _, x := range missing {
		if _, denied := fault.As(&x.Fault, new(*types.NoPermission)); denied {
			lost = true
			m.Readable = m.Readable && x.Path != stamp.Path
		}
	}
	switch {
	case state != "" && state != string(types.VirtualMachineConnectionStateConnected):
		m.Unreachable = state
	case !m.Readable && lost:
		m.Unreachable = hidden
	case !m.Readable:
		m.Unreachable = "unreadable"
	default:
		m.Reachable = true
	}
}

func (m *Machine) takeText(name, v string) {
	switch name {
	case "name":
		m.Name = v
	case "config.instanceUuid":
		m.InstanceUUID = v
	case "config.changeVersion":
		m.ChangeVersion = v
	case "config.files.vmPathName":
		m.NamedHome, m.File = disks.NamedHome(v), plan.Printable(v)
	case "guest.toolsRunningStatus":
		m.Tools = v == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)
	}
}

func (m *Machine) takeFlag(name string, v bool) {
	switch name {
	case "config.template":
		m.Template = v
	case "config.cpuHotAddEnabled":
		m.CPUHotAdd = v
	case "config.memoryHotAddEnabled":
		m.MemoryHotAdd = v
	case "config.hardware.autoCoresPerSocket":
		m.AutoCores = v
	}
}

func (m *Machine) takeNumber(name string, v int64) {
	switch name {
	case "summary.config.numVirtualDisks":
		m.NumDisks = int32(v)
	case "config.hardware.numCPU":
		m.CPU = int32(v)
	case "config.hardware.memoryMB":
		m.MemoryMB = v
	case "config.hardware.numCoresPerSocket":
		m.CoresPerSocket = int32(v)
	case "config.hotPlugMemoryLimit":
		m.MaxHotMemoryMB = v
	}
}
