package managed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Guest says what comes up in a VM that is powered on, resumed or reset. With the zero value nothing
// does: no VMware Tools run, and no address is reported.
type Guest struct {
	// Tools reports whether VMware Tools are installed.
	Tools bool
	// Boot is how long it takes until they run.
	Boot time.Duration
	// IP is how long it takes from then until they report addresses: those that a customization or cloud-init's
	// metadata (guestinfo.metadata) gave the adapters, and else of the first one that is always the same of a VM,
	// unique, and from 10.128.0.0/9. One that SetIP gave stays.
	IP time.Duration
}

// Health is how a guest is.
type Health int

// The states of health. A sick guest has no VMware Tools and no address.
const (
	Well           Health = iota
	SickUntilReset        // until the next reset or power-on
	SickForGood           // whatever is done to the VM
)

// life is a guest's, from a power-on or reset to the next change. The world guards it.
type life struct {
	health Health
	end    context.CancelFunc // of what is still to come up
}

// lifeOf returns the life in a VM; that of one that is off is over, and remembers only its health.
func (v *Objects) lifeOf(ref types.ManagedObjectReference) *life {
	l, ok := v.lives[ref]
	if !ok {
		l = &life{end: func() {}}
		v.lives[ref] = l
	}
	return l
}

// halt ends the guest: VMware Tools stop, and what they reported goes. The caller holds the world.
func (v *Objects) halt(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	if l, ok := v.lives[vm.Self]; ok {
		l.end()
		delete(v.lives, vm.Self)
		if l.health == SickForGood {
			v.lifeOf(vm.Self).health = SickForGood
		}
	}
	v.report(ctx, vm, toolsStop)
}

// boot begins a new life in a VM where none is. The caller holds the world.
func (v *Objects) boot(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	l := v.lifeOf(vm.Self)
	if l.health == Well && !v.matches(ctx, v.broken, vm) {
		v.comeUp(ctx, vm, l)
	}
}

// reboot ends a life and begins another. The caller holds the world.
func (v *Objects) reboot(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	v.halt(ctx, vm)
	v.boot(ctx, vm)
}

// comeUp brings up what Config.Guest says, in its time or at once.
func (v *Objects) comeUp(ctx *simulator.Context, vm *simulator.VirtualMachine, l *life) {
	v.await(ctx, l, v.guest.Boot, func(ctx *simulator.Context) {
		v.report(ctx, vm, func(g *types.GuestInfo) {
			toolsStart(g)
			g.HostName = cmp.Or(v.identityOf(vm).Host, g.HostName)
		})
		v.customizationIs(ctx, vm, types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_RUNNING)
		v.awaitAddress(ctx, vm, l)
	})
}

// awaitAddress brings up an address, if there is none then.
func (v *Objects) awaitAddress(ctx *simulator.Context, vm *simulator.VirtualMachine, l *life) {
	v.await(ctx, l, v.guest.IP, func(ctx *simulator.Context) {
		v.report(ctx, vm, func(g *types.GuestInfo) {
			if !hasAddress(g) {
				addresses := v.identityOf(vm).Addresses
				if len(addresses) == 0 {
					addresses = []string{""}
				}
				addresses[0] = cmp.Or(addresses[0], addressOf(vm.Self))
				setAddresses(g, addresses)
			}
		})
		v.customizationIs(ctx, vm, types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_SUCCEEDED)
	})
}

// await makes it the next thing that comes up in a life, after a time, or at once if there is nothing to
// wait for. It is done with the world held, as await is called.
func (v *Objects) await(ctx *simulator.Context, l *life, after time.Duration, do func(*simulator.Context)) {
	l.end()
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
	alive, l.end = context.WithCancel(v.world.Ctx)
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

// matches asks an operator's predicate about a VM.
func (v *Objects) matches(ctx *simulator.Context, match func(VM) bool, vm *simulator.VirtualMachine) bool {
	return match != nil && match(v.look(ctx, vm))
}

// report changes what vCenter knows of the guest, and tells it in the summary, too.
func (v *Objects) report(ctx *simulator.Context, vm *simulator.VirtualMachine, change func(*types.GuestInfo)) {
	v.objects.WithLock(ctx, vm.Self, func() {
		guest, summary := *vm.Guest, *vm.Summary.Guest
		change(&guest)
		summary.ToolsStatus, summary.ToolsRunningStatus = guest.ToolsStatus, guest.ToolsRunningStatus
		summary.ToolsVersionStatus, summary.ToolsVersionStatus2 = guest.ToolsVersionStatus, guest.ToolsVersionStatus2
		summary.IpAddress, summary.HostName = guest.IpAddress, guest.HostName
		v.objects.Update(ctx, vm, []types.PropertyChange{{Name: "guest", Val: guest}, {Name: "summary.guest", Val: summary}})
	})
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

// setAddress has the first network card report an address, and the others none.
func setAddress(g *types.GuestInfo, ip string) { setAddresses(g, []string{ip}) }

// setAddresses has each network card report its address; that of the first is the guest's, unless docker0's is.
func setAddresses(g *types.GuestInfo, ips []string) {
	g.IpAddress = ips[0]
	g.Net = slices.Clone(g.Net)
	for i := range g.Net {
		if !ofAdapter(g.Net[i]) {
			g.IpAddress = dockerAddress
			continue
		}
		g.Net[i].IpAddress, g.Net[i].IpConfig = nil, nil
		if i >= len(ips) || ips[i] == "" {
			continue
		}
		prefix := int32(9)
		if strings.Contains(ips[i], ":") {
			prefix = 64
		}
		g.Net[i].IpAddress = []string{ips[i]}
		g.Net[i].IpConfig = &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{{
			IpAddress: ips[i], PrefixLength: prefix, State: string(types.NetIpConfigInfoIpAddressStatusPreferred),
		}}}
	}
}

// addressOf makes an address of the number in a moRef, which no other VM ever has.
func addressOf(ref types.ManagedObjectReference) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(ref.Value, "vm-"))
	return fmt.Sprintf("10.%d.%d.%d", 128+n>>16&127, n>>8&255, n&255)
}
