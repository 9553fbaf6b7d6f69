package inventory

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// hidden is Machine.Unreachable of a VM that exists but that our user may no longer see.
const hidden = "hidden"

// hide marks VMs that were read but are not in the answer as hidden: the answer says neither that they exist nor that they
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
		}
	}
	slices.Sort(c.Hosts)
	return c
}

// decodeRules leaves out all rules but ours.
func decodeRules(rules []types.BaseClusterRuleInfo) (ours []Rule) {
	for _, info := range rules {
		r, is := info.(*types.ClusterAntiAffinityRuleSpec)
		if !is {
			continue
		}
		uid := RuleOwner(r.Name)
		if uid == "" {
			continue
		}
		x := Rule{UID: uid, Name: r.Name, Key: r.Key, UUID: r.RuleUuid, UserCreated: r.UserCreated,
			Enabled: r.Enabled != nil && *r.Enabled, Mandatory: r.Mandatory != nil && *r.Mandatory}
		for _, vm := range r.Vm {
			x.VMs = append(x.VMs, vm.Value)
		}
		slices.Sort(x.VMs)
		ours = append(ours, x)
	}
	slices.SortFunc(ours, func(a, b Rule) int { return cmp.Compare(a.Key, b.Key) })
	return ours
}

func decodeMachine(o *types.ObjectContent, hosts map[string]string) Machine {
	m := Machine{VM: plan.VM{MoRef: o.Obj.Value}}
	var state, primary string
	var nics []types.GuestNicInfo
	for _, p := range o.PropSet { // properties that vCenter leaves unset are not among them, and so unknown
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
			m.Customization = customizationOf(&v)
		case types.ArrayOfGuestNicInfo:
			nics = v.GuestNicInfo
		}
	}
	m.IPs, m.firstIPs = addresses(primary, nics), addresses("", firstAdapter(nics))
	m.judge(state, o.MissingSet)
	return m
}

// judge decides whether the VM is reachable, from its connection state and the properties that vCenter withheld.
func (m *Machine) judge(state string, missing []types.MissingProperty) {
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

// addresses are those of a guest's adapters, the primary one first and the others in order. Link-local and loopback ones are left
// out: Kubernetes takes no such endpoint. So is the primary one if no adapter of the VM has it: Tools may take docker0's for it, or a
// CNI bridge's (vmware/open-vm-tools#93, #100, #373). Only where they tell of no adapter at all, as may happen while a guest runs
// (kubernetes/cloud-provider-vsphere#307), nothing speaks against it.
func addresses(primary string, nics []types.GuestNicInfo) []string {
	var all []netip.Addr
	add := func(text string) {
		if ip, ok := usableAddress(text); ok && !slices.Contains(all, ip) {
			all = append(all, ip)
		}
	}
	for _, nic := range nics {
		if nic.DeviceConfigId < 0 { // no adapter of the VM ([doc] GuestNicInfo)
			continue
		}
		for _, text := range nic.IpAddress {
			add(text)
		}
		if nic.IpConfig != nil {
			for _, ip := range nic.IpConfig.IpAddress {
				add(ip.IpAddress)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	if len(nics) == 0 {
		add(primary)
	}
	if ip, ok := usableAddress(primary); ok && slices.Contains(all, ip) {
		all = slices.DeleteFunc(all, func(x netip.Addr) bool { return x == ip })
		all = slices.Insert(all, 0, ip)
	}
	var texts []string
	for _, ip := range all {
		texts = append(texts, ip.String())
	}
	return texts
}

func usableAddress(text string) (ip netip.Addr, ok bool) {
	ip, err := netip.ParseAddr(text)
	ip = ip.Unmap().WithZone("")
	return ip, err == nil && ip.IsGlobalUnicast()
}

// firstAdapter are the reports of the adapter that was added first, which has the lowest key.
func firstAdapter(nics []types.GuestNicInfo) (first []types.GuestNicInfo) {
	for _, nic := range nics {
		switch {
		case nic.DeviceConfigId < 0, len(first) > 0 && nic.DeviceConfigId > first[0].DeviceConfigId:
		case len(first) > 0 && nic.DeviceConfigId == first[0].DeviceConfigId:
			first = append(first, nic)
		default:
			first = []types.GuestNicInfo{nic}
		}
	}
	return first
}

// inOrder sorts a member's addresses as they are published: its static ones, by adapter; then those of the
// first of spec.networks; then the rest in their order. first are those of the first adapter. The order stays when guests report
// another primary address.
func inOrder(ips, first []string, s *stamp.Stamp) []string {
	if len(ips) < 2 || s.Addresses == "" && !plan.PreparationIn(s.Prepared).Networks {
		return ips
	}
	static := plan.AddressesIn(s.Addresses)
	rank := func(ip string) int {
		if i := slices.Index(static, ip); i >= 0 {
			return i
		}
		if slices.Contains(first, ip) {
			return len(static)
		}
		return len(static) + 1
	}
	ordered := slices.Clone(ips)
	slices.SortStableFunc(ordered, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return ordered
}

// within drops addresses that are in none of the networks; without networks all stay. Software in a guest can
// report any address, and clients in Kubernetes would connect to it.
func within(networks []netip.Prefix, addresses []string) []string {
	if len(networks) == 0 {
		return addresses
	}
	var kept []string
	for _, text := range addresses {
		ip, err := netip.ParseAddr(text)
		if err == nil && slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			kept = append(kept, text)
		}
	}
	return kept
}
