package vcsim

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Guest configures the guest that starts in a VM that is powered on, resumed or reset. The zero value has no VMware Tools and reports no address.
type Guest struct {
	// Tools reports whether VMware Tools are installed.
	Tools bool
	// Boot is the time until Tools run.
	Boot time.Duration
	// IP is the time from then until they report addresses: those of the customization or of cloud-init's metadata (guestinfo.metadata),
	// otherwise one on the first adapter that uses DHCP, unique per VM, from 10.128.0.0/9. They don't replace an address that SetIP has set.
	IP time.Duration
}

// Health is the state of a guest.
type Health int

// The states of health. A hung guest has no VMware Tools and no address.
const (
	Healthy        Health = iota
	HungUntilReset        // until the next reset or power-on
	Hung                  // until the next SetHealth
)

// guestState is the state of a guest from a power-on or reset to the next change. The world lock guards it.
type guestState struct {
	health Health
	end    context.CancelFunc // cancels the start of Tools and of addresses
	// silent are the addresses that the guest has and does not report, because its Tools were stopped.
	silent []string
}

// guestStateOf returns the guest state of a VM. While the VM is off, only its health matters.
func (v *inventory) guestStateOf(ref types.ManagedObjectReference) *guestState {
	s, ok := v.guestStates[ref]
	if !ok {
		s = &guestState{end: func() {}}
		v.guestStates[ref] = s
	}
	return s
}

// hasAddress reports whether a running guest has an address on an adapter, whether or not its Tools report it. The caller holds the world
// lock and the VM's.
func (v *inventory) hasAddress(vm *simulator.VirtualMachine, address string) bool {
	if s, ok := v.guestStates[vm.Self]; ok && slices.Contains(s.silent, address) {
		return true
	}
	return slices.ContainsFunc(vm.Guest.Net, func(nic types.GuestNicInfo) bool { return ofAdapter(nic) && slices.Contains(nic.IpAddress, address) })
}

// halt stops the guest and its VMware Tools, and clears their reports. The caller holds the world lock.
func (v *inventory) halt(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	if s, ok := v.guestStates[vm.Self]; ok {
		s.end()
		delete(v.guestStates, vm.Self)
		if s.health == Hung {
			v.guestStateOf(vm.Self).health = Hung
		}
	}
	v.report(ctx, vm, toolsStop)
}

// boot starts the guest of a VM. The caller holds the world lock.
func (v *inventory) boot(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	s := v.guestStateOf(vm.Self)
	v.ignores[vm.Self] = v.matches(v.behavior.IgnoreGuestinfo, vm)
	if s.health == Healthy && !v.matches(v.behavior.BreakGuests, vm) {
		v.startTools(ctx, vm, s)
	}
}

// reboot restarts the guest. The caller holds the world lock.
func (v *inventory) reboot(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	v.halt(ctx, vm)
	v.boot(ctx, vm)
}

// startTools starts VMware Tools as configured in Config.Guest.
func (v *inventory) startTools(ctx *simulator.Context, vm *simulator.VirtualMachine, s *guestState) {
	v.schedule(ctx, s, v.guest.Boot, func(ctx *simulator.Context) {
		v.report(ctx, vm, func(g *types.GuestInfo) {
			toolsStart(g)
			g.HostName = cmp.Or(v.identityOf(vm).Host, g.HostName)
		})
		v.setCustomizationStatus(ctx, vm, types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_RUNNING)
		v.scheduleAddress(ctx, vm, s)
	})
}

// scheduleAddress makes the guest report its addresses after the configured time, unless the guest already has one by then.
func (v *inventory) scheduleAddress(ctx *simulator.Context, vm *simulator.VirtualMachine, s *guestState) {
	v.schedule(ctx, s, v.guest.IP, func(ctx *simulator.Context) {
		v.report(ctx, vm, func(g *types.GuestInfo) {
			if !hasAddress(g) {
				setAddresses(g, addressesOf(v.identityOf(vm).Adapters, addressOf(vm.Self)))
			}
		})
		v.setCustomizationStatus(ctx, vm, types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_SUCCEEDED)
	})
}

// schedule runs do after a time, or at once if that is 0. schedule cancels the function that was scheduled before. do runs with the world
// lock held. The caller of schedule holds it, too.
func (v *inventory) schedule(ctx *simulator.Context, s *guestState, after time.Duration, do func(*simulator.Context)) {
	s.end()
	if !v.guest.Tools {
		return
	}
	if after <= 0 {
		do(ctx)
		return
	}
	if !v.world.Enter() {
		return
	}
	var alive context.Context
	alive, s.end = context.WithCancel(v.world.Ctx)
	go func() {
		defer v.world.Leave()
		select {
		case <-time.After(after):
		case <-alive.Done():
			return
		}
		v.world.Lock()
		defer v.world.Unlock()
		if alive.Err() == nil {
			do(v.world.Context())
		}
	}()
}

// matches reports whether match is set and true for a VM.
func (v *inventory) matches(match func(VM) bool, vm *simulator.VirtualMachine) bool {
	return match != nil && match(v.look(vm))
}

// report changes the guest information of a VM and its summary.
func (v *inventory) report(ctx *simulator.Context, vm *simulator.VirtualMachine, change func(*types.GuestInfo)) {
	guest, summary := *vm.Guest, *vm.Summary.Guest
	change(&guest)
	summary.ToolsStatus, summary.ToolsRunningStatus = guest.ToolsStatus, guest.ToolsRunningStatus
	summary.ToolsVersionStatus, summary.ToolsVersionStatus2 = guest.ToolsVersionStatus, guest.ToolsVersionStatus2
	summary.IpAddress, summary.HostName = guest.IpAddress, guest.HostName
	v.objects.Update(ctx, vm, []types.PropertyChange{{Name: "guest", Val: guest}, {Name: "summary.guest", Val: summary}})
}

func toolsRun(vm *simulator.VirtualMachine) bool {
	return vm.Guest.ToolsRunningStatus == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)
}

// toolsStart reports open-vm-tools, which vCenter does not manage.
func toolsStart(g *types.GuestInfo) {
	g.ToolsStatus = types.VirtualMachineToolsStatusToolsOk
	g.ToolsRunningStatus = string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)
	g.ToolsVersionStatus = string(types.VirtualMachineToolsVersionStatusGuestToolsUnmanaged)
	g.ToolsVersionStatus2 = g.ToolsVersionStatus
	g.ToolsVersion = "12389" // 12.5.0
	g.GuestState = string(types.VirtualMachineGuestStateRunning)
}

func toolsStop(g *types.GuestInfo) {
	if g.ToolsStatus == types.VirtualMachineToolsStatusToolsOk {
		g.ToolsStatus = types.VirtualMachineToolsStatusToolsNotRunning
	}
	g.ToolsRunningStatus = string(types.VirtualMachineToolsRunningStatusGuestToolsNotRunning)
	g.GuestState = string(types.VirtualMachineGuestStateNotRunning)
	noDocker(g)
	setAddress(g, "")
}

// addressesOf returns the addresses that each adapter has: the static ones, or on the first adapter that has any, the lease of a DHCP server.
func addressesOf(adapters []addressing, lease string) (all [][]string) {
	if len(adapters) == 0 {
		return [][]string{{lease}}
	}
	for _, adapter := range adapters {
		if len(adapter.Static) == 0 && adapter.DHCP && !slices.ContainsFunc(all, func(of []string) bool { return len(of) > 0 }) {
			adapter.Static = []string{lease}
		}
		all = append(all, adapter.Static)
	}
	return all
}

// setAddress makes only the first adapter report an address; if it is empty, no adapter reports an address.
func setAddress(g *types.GuestInfo, ip string) {
	setAddresses(g, [][]string{slices.DeleteFunc([]string{ip}, func(ip string) bool { return ip == "" })})
}

// setAddresses makes each adapter report its addresses. The first of all is the guest's primary address, unless docker0 has the primary
// address.
func setAddresses(g *types.GuestInfo, ips [][]string) {
	g.IpAddress = cmp.Or(slices.Concat(ips...)...)
	g.Net = slices.Clone(g.Net)
	for i := range g.Net {
		if !ofAdapter(g.Net[i]) {
			g.IpAddress = dockerAddress
			continue
		}
		g.Net[i].IpAddress, g.Net[i].IpConfig = nil, nil
		if i >= len(ips) || len(ips[i]) == 0 {
			continue
		}
		g.Net[i].IpAddress, g.Net[i].IpConfig = slices.Clone(ips[i]), &types.NetIpConfigInfo{}
		for _, ip := range ips[i] {
			prefix := int32(9)
			if strings.Contains(ip, ":") {
				prefix = 64
			}
			g.Net[i].IpConfig.IpAddress = append(g.Net[i].IpConfig.IpAddress,
				types.NetIpConfigInfoIpAddress{IpAddress: ip, PrefixLength: prefix, State: string(types.NetIpConfigInfoIpAddressStatusPreferred)})
		}
	}
}

// addressOf derives a unique address from the number in a moRef.
func addressOf(ref types.ManagedObjectReference) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(ref.Value, "vm-"))
	return fmt.Sprintf("10.%d.%d.%d", 128+n>>16&127, n>>8&255, n&255)
}

// dockerAddress is the default address of docker0.
const dockerAddress = "172.17.0.1"

// StartDocker makes a guest with running Tools report docker0, an interface that belongs to no adapter, with its address as the guest's
// primary one, as Tools may (vmware/open-vm-tools#93, #100), until Tools stop.
func (v *inventory) StartDocker(where string) error {
	return v.changeVM("start Docker in", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustHaveTools(vm); fault != nil {
			return fault
		}
		v.report(ctx, vm, func(g *types.GuestInfo) {
			noDocker(g)
			g.Net = append(g.Net, types.GuestNicInfo{MacAddress: "02:42:ac:11:00:01", Connected: true, DeviceConfigId: -1, IpAddress: []string{dockerAddress}})
			g.IpAddress = dockerAddress
		})
		return nil
	})
}

// AddIP makes a guest with running Tools report more addresses on its last adapter. It does not change the primary address.
func (v *inventory) AddIP(where string, ips ...string) error {
	return v.changeVM("add an address to", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustHaveTools(vm); fault != nil {
			return fault
		}
		v.report(ctx, vm, func(g *types.GuestInfo) {
			g.Net = slices.Clone(g.Net)
			for i := len(g.Net) - 1; i >= 0; i-- {
				if ofAdapter(g.Net[i]) {
					g.Net[i].IpAddress = slices.Concat(g.Net[i].IpAddress, ips)
					return
				}
			}
		})
		return nil
	})
}

func mustHaveTools(vm *simulator.VirtualMachine) types.BaseMethodFault {
	if !toolsRun(vm) {
		return new(types.ToolsUnavailable)
	}
	return nil
}

// ofAdapter reports whether a guest interface belongs to an adapter of the VM.
//
// [doc] GuestNicInfo.deviceConfigId: "Link to the corresponding virtual device"; -1 for an interface that has none.
func ofAdapter(nic types.GuestNicInfo) bool { return nic.DeviceConfigId >= 0 }

func noDocker(g *types.GuestInfo) {
	g.Net = slices.DeleteFunc(slices.Clone(g.Net), func(nic types.GuestNicInfo) bool { return !ofAdapter(nic) })
}

// hasAddress reports whether an adapter has an address.
func hasAddress(g *types.GuestInfo) bool {
	return slices.ContainsFunc(g.Net, func(nic types.GuestNicInfo) bool { return ofAdapter(nic) && len(nic.IpAddress) > 0 }) ||
		g.IpAddress != "" && g.IpAddress != dockerAddress
}

// services are the network services of all guests.
type services struct {
	up func(address string) (vm string, up bool)

	mu   sync.Mutex
	down []string // the moRefs of VMs whose service is stopped
	cut  bool
}

// newServices returns the services of guests. up returns the VM whose running guest has an address.
func newServices(up func(address string) (vm string, up bool)) *services { return &services{up: up} }

// StopService makes the service of a VM, by its moRef, refuse connections, or accept them again.
func (s *services) StopService(vm string, stop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = slices.DeleteFunc(s.down, func(other string) bool { return other == vm })
	if stop {
		s.down = append(s.down, vm)
	}
}

// CutGuests cuts the network to all guests, so that connections get no answer, or restores it.
func (s *services) CutGuests(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
}

// DialGuest connects to a port of a guest, like net.Dialer.DialContext.
func (s *services) DialGuest(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	vm, up := s.up(host)
	s.mu.Lock()
	cut, stopped := s.cut, slices.Contains(s.down, vm)
	s.mu.Unlock()
	switch {
	case cut || !up: // no guest has the address
		<-ctx.Done()
		return nil, ctx.Err()
	case stopped:
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	near, far := net.Pipe()
	go serveGuest(far)
	return near, nil
}

// serveGuest answers one request, until the client hangs up.
func serveGuest(c net.Conn) {
	defer func() { _ = c.Close() }()
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

// runsAt returns the VM whose running guest has an address.
func (v *VCenter) runsAt(address string) (vm string, runs bool) {
	v.world.Lock()
	defer v.world.Unlock()
	for _, e := range v.objects.All("VirtualMachine") {
		if one := e.(*simulator.VirtualMachine); v.inventory.hasAddress(one, address) {
			return one.Self.Value, true
		}
	}
	return "", false
}
