package vcsim_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const on, off = types.VirtualMachinePowerStatePoweredOn, types.VirtualMachinePowerStatePoweredOff

func named(name string) func(vcsim.VM) bool {
	return func(vm vcsim.VM) bool { return vm.Name == name }
}

// wantGuest checks what vCenter reports about a guest.
func wantGuest(t testing.TB, v *vcsim.VCenter, name string, tools, address bool) {
	t.Helper()
	if vm := theVM(t, v, name); vm.Tools != tools || (vm.IP != "") != address {
		t.Errorf("%s: tools %t, address %q; want %t, %t", name, vm.Tools, vm.IP, tools, address)
	}
}

func (c *client) guest(t testing.TB, ref types.ManagedObjectReference) (types.GuestInfo, types.VirtualMachineGuestSummary) {
	t.Helper()
	var vm mo.VirtualMachine
	ok(t, c.RetrieveOne(c.ctx, ref, []string{"guest", "summary.guest"}, &vm))
	return *vm.Guest, *vm.Summary.Guest
}

func TestDefaultGuestHasNoToolsOrAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		addVM(t, v, "/DC0/vm", "vm")
		ok(t, v.PowerOn("vm"))
		wantGuest(t, v, "vm", false, false)
	})
}

func TestGuestReportsToolsAndThenAnAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const boot, ip = 30 * time.Second, 10 * time.Second
		v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true, Boot: boot, IP: ip}})
		c := login(t, v)
		ref := addVM(t, v, "/DC0/vm", "vm")
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "guest.toolsRunningStatus", "guest.ipAddress"))
		w.next(t, 1)
		began := time.Now()
		ok(t, v.PowerOn("vm"))
		if got := w.next(t, 60); len(got) != 1 || got[0] != "modify "+ref.Value+" guest.toolsRunningStatus=guestToolsRunning" {
			t.Errorf("first: %v", got)
		}
		if took := time.Since(began); took < boot {
			t.Errorf("tools started after %v", took)
		}
		address := "modify " + ref.Value + " guest.ipAddress="
		if got := w.next(t, 60); len(got) != 1 || got[0] != address+theVM(t, v, "vm").IP || got[0] == address {
			t.Errorf("then: %v", got)
		}
		if took := time.Since(began); took < boot+ip {
			t.Errorf("the address came after %v", took)
		}

		guest, summary := c.guest(t, ref)
		if guest.ToolsStatus != types.VirtualMachineToolsStatusToolsOk || guest.ToolsVersionStatus2 != "guestToolsUnmanaged" || guest.GuestState != "running" ||
			summary.ToolsRunningStatus != guest.ToolsRunningStatus || summary.IpAddress != guest.IpAddress {
			t.Errorf("got %+v and %+v", guest, summary)
		}
		if ip, err := netip.ParseAddr(guest.IpAddress); err != nil || !netip.MustParsePrefix("10.0.0.0/8").Contains(ip) {
			t.Errorf("got the address %s", guest.IpAddress)
		}
		if len(guest.Net) != 1 || guest.Net[0].IpAddress[0] != guest.IpAddress || guest.Net[0].IpConfig.IpAddress[0].IpAddress != guest.IpAddress {
			t.Errorf("got the adapters %+v", guest.Net)
		}
	})
}

func TestGuestReportsNothingWhenTheVMStops(t *testing.T) {
	inABubble(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		ref := addVM(t, v, "/DC0/vm", "vm")
		vm := object.NewVirtualMachine(c.Client.Client, ref)
		for name, down := range map[string]func(){
			"off":     func() { ok(t, v.PowerOff("vm")) },
			"suspend": func() { wait(t, c, vm.Suspend) },
			"shutdown": func() {
				ok(t, vm.ShutdownGuest(c.ctx))
				eventually(t, "the guest halts", func() bool { return theVM(t, v, "vm").Power == off })
			},
		} {
			ok(t, v.PowerOn("vm"))
			wantGuest(t, v, "vm", true, true)
			down()
			wantGuest(t, v, "vm", false, false)
			guest, summary := c.guest(t, ref)
			if guest.ToolsStatus != types.VirtualMachineToolsStatusToolsNotRunning || guest.ToolsRunningStatus != "guestToolsNotRunning" ||
				len(guest.Net[0].IpAddress) != 0 || summary.ToolsRunningStatus != "guestToolsNotRunning" {
				t.Errorf("%s: %+v", name, guest)
			}
		}
	})
}

// wait starts a task as a client and waits for its end.
func wait(t testing.TB, c *client, begin func(ctx ctx) (*object.Task, error)) {
	t.Helper()
	task, err := begin(c.ctx)
	ok(t, err)
	ok(t, task.Wait(c.ctx))
}

func TestGuestsHaveDistinctAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
		seen := map[string]bool{}
		for _, name := range []string{"a", "b", "c"} {
			addVM(t, v, "/DC0/vm", name)
			ok(t, v.PowerOn(name))
			seen[theVM(t, v, name).IP] = true
		}
		if len(seen) != 3 {
			t.Errorf("got the addresses %v", seen)
		}
	})
}

func TestAddressOfSetIPStays(t *testing.T) {
	inABubble(t, vcsim.Config{Guest: vcsim.Guest{Tools: true, IP: 10 * time.Second}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		for _, name := range []string{"mine", "other"} {
			addVM(t, v, "/DC0/vm", name)
			ok(t, v.PowerOn(name))
			if name == "mine" {
				ok(t, v.SetIP(name, "fd00::1"))
			}
		}
		eventually(t, "the other guest has an address", func() bool { return theVM(t, v, "other").IP != "" })
		guest, _ := c.guest(t, theVM(t, v, "mine").Ref)
		if guest.IpAddress != "fd00::1" || guest.Net[0].IpAddress[0] != "fd00::1" {
			t.Errorf("got %+v", guest)
		}
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "guest.net"))
		w.next(t, 1)
		ok(t, v.SetIP("mine", ""))
		wantGuest(t, v, "mine", true, false)
		if got := w.next(t, 5); len(got) != 1 {
			t.Errorf("the stream reported %v", got)
		}
	})
}

func TestPowerOffEndsABoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true, Boot: 30 * time.Second}})
		for _, name := range []string{"gone", "off", "later"} {
			addVM(t, v, "/DC0/vm", name)
			ok(t, v.PowerOn(name))
			if name != "later" {
				ok(t, v.PowerOff(name))
			}
		}
		ok(t, v.Destroy("gone"))
		eventually(t, "the last guest is up", func() bool { return theVM(t, v, "later").Tools })
		wantGuest(t, v, "off", false, false)
	})
}

func TestSetToolsStartsAndStopsTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
		addVM(t, v, "/DC0/vm", "vm")
		wantFault[*types.InvalidPowerState](t, v.SetTools("vm", true))
		ok(t, v.PowerOn("vm"))
		ok(t, v.SetTools("vm", false))
		wantGuest(t, v, "vm", false, false)
		ok(t, v.SetTools("vm", true))
		wantGuest(t, v, "vm", true, true)
		ok(t, v.SetTools("vm", false))
		ok(t, v.Reset("vm"))
		wantGuest(t, v, "vm", true, true)
	})
}

func TestBrokenGuestsStartNoTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
		for _, name := range []string{"good", "bad"} {
			addVM(t, v, "/DC0/vm", name)
		}
		v.BreakGuests(named("bad"))
		for _, up := range []func(string) error{v.PowerOn, v.Reset} {
			ok(t, up("good"))
			ok(t, up("bad"))
			wantGuest(t, v, "good", true, true)
			wantGuest(t, v, "bad", false, false)
		}
		v.BreakGuests(nil)
		wantGuest(t, v, "bad", false, false)
		ok(t, v.Reset("bad"))
		wantGuest(t, v, "bad", true, true)
	})
}

func TestHungGuestHasNoToolsUntilItRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}})
		addVM(t, v, "/DC0/vm", "vm")
		wantFault[*types.InvalidPowerState](t, v.SetHealth("vm", vcsim.HungUntilReset))
		ok(t, v.PowerOn("vm"))

		ok(t, v.SetHealth("vm", vcsim.HungUntilReset))
		wantGuest(t, v, "vm", false, false)
		ok(t, v.Reset("vm"))
		wantGuest(t, v, "vm", true, true)

		ok(t, v.SetHealth("vm", vcsim.Hung))
		wantGuest(t, v, "vm", false, false)
		for _, do := range []func(string) error{v.Reset, v.PowerOff, v.PowerOn} {
			ok(t, do("vm"))
			wantGuest(t, v, "vm", false, false)
		}
		ok(t, v.SetHealth("vm", vcsim.Healthy))
		wantGuest(t, v, "vm", true, true)
		ok(t, v.Reset("vm"))
		wantGuest(t, v, "vm", true, true)
	})
}

func TestSetHealthAndSetToolsInterruptABoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Guest: vcsim.Guest{Tools: true, Boot: 30 * time.Second}})
		for _, name := range []string{"hung", "stopped", "well"} {
			addVM(t, v, "/DC0/vm", name)
			ok(t, v.PowerOn(name))
		}
		ok(t, v.SetHealth("hung", vcsim.HungUntilReset))
		ok(t, v.SetTools("stopped", false))
		ok(t, v.Reset("well"))
		eventually(t, "the last guest is up", func() bool { return theVM(t, v, "well").Tools })
		wantGuest(t, v, "hung", false, false)
		wantGuest(t, v, "stopped", false, false)
	})
}
