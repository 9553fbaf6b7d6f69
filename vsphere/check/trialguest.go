package check

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// largeKey has a guestinfo value of the maximum size.
const largeKey = "guestinfo.vmgroup-check"

// settles is the time after the start of Tools within which a guest reports its name and addresses. (Tools check for changes every 30
// seconds.)
const settles = 31 * time.Second

// trialGuest is the state of the VM's guest.
type trialGuest struct {
	awaited, up bool
	spent       time.Duration // how much of GuestTimeout the trial has used
	upAt        time.Time
}

// guestValues returns the clone's guestinfo by key: its identity, and a value as large as user data can be; nil if the template's vApp
// properties would hide it.
func (t *trial) guestValues() (map[string]string, error) {
	if t.template.info.VApp && !t.held["VApp.ApplicationConfig"] {
		return nil, nil
	}
	options, err := guest.Metadata(guest.MetadataKey, plan.Ref{Namespace: "vmgroup-check", Name: "vmgroup-check"}, plan.Action{Key: trialName}, t.id, nil, nil)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, o := range options {
		values[o.GetOptionValue().Key], _ = o.GetOptionValue().Value.(string)
	}
	large := make([]byte, base64.StdEncoding.DecodedLen(plan.MaxUserData))
	_, _ = rand.Read(large) // it never fails
	values[largeKey] = base64.StdEncoding.EncodeToString(large)
	return values, nil
}

// guestinfo returns what experiments with guestinfo lack.
func guestinfo(t *trial, _ context.Context) string {
	if t.guestinfo == nil {
		return "the template's vApp properties would hide it: needs VApp.ApplicationConfig in " + t.at.RootPath
	}
	return ""
}

// guestinfoOfClone reads the guestinfo back before the VM's first boot.
func (t *trial) guestinfoOfClone(ctx context.Context) outcome {
	size := 0
	for key, want := range t.guestinfo {
		got, _, err := t.option(ctx, t.vm, key)
		if err != nil {
			return failedBy(err)
		}
		if got != want {
			return refuted(fmt.Sprintf("the clone has %[2]d bytes of %[1]s, its spec %[3]d", key, len(got), len(want)), "members would boot without their user data").with(Facts{"bytes": count(len(got)), "wanted": count(len(want))})
		}
		size = max(size, len(got))
	}
	return confirmed("complete, including a value of %d KiB", size>>10).with(Facts{"bytes": count(size)})
}

// tools returns what experiments with VMware Tools lack. It waits for Tools once.
func tools(t *trial, ctx context.Context) string {
	g := &t.guest
	if !g.awaited && running(t, ctx) == "" {
		t.progress("waiting for the guest's VMware Tools, up to %s", t.GuestTimeout)
		began := t.now()
		g.up = within(ctx, t.GuestTimeout, func(ctx context.Context) bool {
			x, err := t.state(ctx)
			return err == nil && x.tools == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)
		})
		g.awaited, g.spent, g.upAt = true, t.now().Sub(began), t.now()
	}
	switch {
	case g.up:
		return ""
	case !g.awaited:
		return "the VM is not powered on"
	case ctx.Err() != nil:
		return "stopped"
	}
	return fmt.Sprintf("needs a template with VMware Tools: none running in the guest after %s (install open-vm-tools; if the guest boots slowly, increase --guest-timeout)", t.GuestTimeout)
}

// settled returns the state of the guest once it is met, or at the end of the settling time.
func (t *trial) settled(ctx context.Context, holds func(trialState) bool) (x trialState, held bool) {
	held = within(ctx, max(settles-t.now().Sub(t.guest.upAt), time.Second), func(ctx context.Context) bool {
		if now, err := t.state(ctx); err == nil {
			x = now
		}
		return holds(x)
	})
	return x, held
}

// firstBoot checks whether the guest has the host name in its guestinfo, which cloud-init reads at the first boot.
func (t *trial) firstBoot(ctx context.Context) outcome {
	x, named := t.settled(ctx, func(x trialState) bool { return x.name == trialName })
	switch {
	case named:
		return confirmed("the guest has the host name %s of its guestinfo", trialName)
	case t.like != nil && (t.like.Spec.UserData != nil || len(t.like.Spec.Networks) > 0):
		return refuted(fmt.Sprintf("the guest has the host name %q instead of %s: it did not read guestinfo, although the group has userData or networks", x.name, trialName),
			"members would boot without their user data and addresses (check that the template has cloud-init 21.3 or newer)")
	}
	return inconclusive(fmt.Sprintf("the guest has the host name %q instead of %s: needs a template whose cloud-init reads guestinfo", x.name, trialName), "ignore this if your groups have neither userData nor networks")
}

// addresses checks whether the guest reports addresses by adapter.
func (t *trial) addresses(ctx context.Context) outcome {
	x, has := t.settled(ctx, func(x trialState) bool { return x.address != "" })
	if !has {
		return inconclusive(fmt.Sprintf("the guest reported no address within %s", settles), "try a network with DHCP")
	}
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return failedBy(err)
	}
	var keys []int32
	for _, card := range hardware.NICsIn(now.Devices) {
		keys = append(keys, card.GetVirtualDevice().Key)
	}
	on, others := 0, 0
	for _, nic := range x.nics {
		switch {
		case slices.Contains(keys, nic.DeviceConfigId) && len(nic.IpAddress) > 0:
			on++
		case nic.DeviceConfigId < 0:
			others++
		}
	}
	facts := Facts{"adapters": count(len(keys)), "withAddresses": count(on), "otherInterfaces": count(others)}
	if on == 0 {
		return refuted("the guest has an address, but vCenter reports none for an adapter of the VM", "members would have no endpoints").with(facts)
	}
	return confirmed("for %d of %d adapters, by key; %d other interfaces", on, len(keys), others).with(facts)
}

// shutDown shuts the guest down.
func (t *trial) shutDown(ctx context.Context) outcome {
	t.progress("shutting down the guest")
	err := t.v.Call(t.end, func(ctx context.Context, s *session.Session) error {
		return object.NewVirtualMachine(s.Vim, t.vm).ShutdownGuest(ctx)
	})
	if err != nil {
		return failedBy(err)
	}
	began, timeout := t.now(), max(t.GuestTimeout-t.guest.spent, t.GuestTimeout/3)
	off := within(ctx, timeout, func(ctx context.Context) bool {
		now, err := t.state(ctx)
		return err == nil && now.power == types.VirtualMachinePowerStatePoweredOff
	})
	took := t.now().Sub(began)
	facts := Facts{"off": yes(off), "tookMs": millis(took)}
	if !off {
		return outcome{result: Warn, seen: fmt.Sprintf("the guest did not shut down within %s", timeout.Round(time.Second)),
			advice: "find out what delays it; the server powers the VM off after shutdown.timeoutSeconds"}.with(facts)
	}
	return confirmed("the guest shut down, off after %s", took.Round(100*time.Millisecond)).with(facts)
}
