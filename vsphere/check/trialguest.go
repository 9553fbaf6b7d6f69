package check

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/guest"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// largeKey has the largest value that guestinfo may have.
const largeKey = "guestinfo.vmgroup-check"

// settles is how long a guest may take, from when its Tools run, until it has told its name and addresses. (Tools look for changes
// every 30 seconds.)
const settles = 31 * time.Second

// trialGuest is what was found of the VM's guest.
type trialGuest struct {
	awaited, up bool
	spent       time.Duration // of the guest's patience
	upAt        time.Time
}

// guestinfo is what the clone's guest can read, by its keys: its identity, and a value as large as user data may be. It is nil where a template's
// vApp properties would hide it.
func (t *trial) guestinfo() (map[string]string, error) {
	if t.template.nature.vApp && !t.held["VApp.ApplicationConfig"] {
		return nil, nil
	}
	options, err := guest.Metadata(guest.MetadataKey, plan.Ref{Namespace: "vmgroup-check", Name: "vmgroup-check"}, plan.Action{VM: trialName}, t.id, nil)
	if err != nil {
		return nil, err
	}
	told := map[string]string{}
	for _, o := range options {
		told[o.GetOptionValue().Key], _ = o.GetOptionValue().Value.(string)
	}
	large := make([]byte, base64.StdEncoding.DecodedLen(plan.MaxUserData))
	_, _ = rand.Read(large) // it never fails
	told[largeKey] = base64.StdEncoding.EncodeToString(large)
	return told, nil
}

// guestinfo is what those lack who need it in the clone.
func guestinfo(t *trial, _ context.Context) string {
	if t.told == nil {
		return "the template's vApp properties would hide it: needs VApp.ApplicationConfig in " + t.at.RootPath
	}
	return ""
}

// guestinfoOfClone reads it back, before the VM's first boot.
func (t *trial) guestinfoOfClone(ctx context.Context) verdict {
	size := 0
	for key, want := range t.told {
		got, _, err := t.option(ctx, t.vm, key)
		if err != nil {
			return refused(err)
		}
		if got != want {
			return broken(fmt.Sprintf("of %s the clone has %d bytes, and its spec had %d", key, len(got), len(want)), "members would boot without their user data").with(Facts{"bytes": count(len(got)), "wanted": count(len(want))})
		}
		size = max(size, len(got))
	}
	return held("all that its spec had is there, also a value of %d KiB", size>>10).with(Facts{"bytes": count(size)})
}

// tools is what those lack who need VMware Tools in the guest. It waits for them, once.
func tools(t *trial, ctx context.Context) string {
	g := &t.guest
	if !g.awaited && running(t, ctx) == "" {
		t.progress("waiting for the guest's VMware Tools, up to %s", t.GuestPatience)
		began := t.now()
		g.up = t.within(ctx, t.GuestPatience, func(ctx context.Context) (bool, error) {
			x, err := t.state(ctx)
			return err == nil && x.tools == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning), err
		})
		g.awaited, g.spent, g.upAt = true, t.now().Sub(began), t.now()
	}
	switch {
	case g.up:
		return ""
	case !g.awaited:
		return "the VM does not run"
	case ctx.Err() != nil:
		return "stopped"
	}
	return fmt.Sprintf("needs a template with VMware Tools: none run in the guest after %s (install open-vm-tools; a guest that boots slowly: --guest-timeout)", t.GuestPatience)
}

// settling is how long the guest may take still.
func (t *trial) settling() time.Duration {
	return max(settles-t.now().Sub(t.guest.upAt), time.Second)
}

// firstBoot looks whether the guest is called as its guestinfo says: cloud-init reads that at the first boot.
func (t *trial) firstBoot(ctx context.Context) verdict {
	var x trialState
	named := t.within(ctx, t.settling(), func(ctx context.Context) (bool, error) {
		now, err := t.state(ctx)
		if err == nil {
			x = now
		}
		return x.name == trialName, err
	})
	switch {
	case named:
		return held("the guest is called %s, as it was told", trialName)
	case t.like != nil && (t.like.Spec.UserData != nil || len(t.like.Spec.Networks) > 0):
		return broken(fmt.Sprintf("the guest is called %q, and not %s: it did not read guestinfo, though the group has userData or networks", x.name, trialName),
			"members would boot without their user data and addresses (see whether the template has cloud-init 21.3 or newer)")
	}
	return untold(fmt.Sprintf("the guest is called %q, and not %s: needs a template whose cloud-init reads guestinfo", x.name, trialName), "take no notice if your groups have neither userData nor networks")
}

// addresses looks whether the guest's addresses are told by adapter.
func (t *trial) addresses(ctx context.Context) verdict {
	var x trialState
	t.within(ctx, t.settling(), func(ctx context.Context) (bool, error) {
		now, err := t.state(ctx)
		if err == nil {
			x = now
		}
		return x.address != "", err
	})
	if x.address == "" {
		return untold(fmt.Sprintf("the guest told no address within %s", settles), "try a network with DHCP")
	}
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return refused(err)
	}
	var keys []int32
	for _, card := range cardsOf(now.Devices) {
		keys = append(keys, card.Key)
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
		return broken("the guest has an address, but vCenter reports none for an adapter of the VM", "members would have no endpoints").with(facts)
	}
	return held("of %d of %d adapters, by their keys; %d other interfaces", on, len(keys), others).with(facts)
}

// shutDown asks the guest to shut down.
func (t *trial) shutDown(ctx context.Context) verdict {
	t.progress("asking the guest to shut down")
	err := t.v.Call(t.end, func(ctx context.Context, s *session.Session) error {
		_, err := methods.ShutdownGuest(ctx, s.Vim, &types.ShutdownGuest{This: t.vm})
		return err
	})
	if err != nil {
		return refused(err)
	}
	began, patience := t.now(), max(t.GuestPatience-t.guest.spent, t.GuestPatience/3)
	off := t.within(ctx, patience, func(ctx context.Context) (bool, error) {
		now, err := t.state(ctx)
		return err == nil && now.power == types.VirtualMachinePowerStatePoweredOff, err
	})
	took := t.now().Sub(began)
	facts := Facts{"off": yes(off), "tookMs": millis(took)}
	if !off {
		return verdict{result: Warn, seen: fmt.Sprintf("the guest was asked, and is not off after %s", patience.Round(time.Second)),
			advice: "see what keeps it; the server powers it off after shutdown.timeoutSeconds"}.with(facts)
	}
	return held("asked by its Tools, and off after %s", took.Round(100*time.Millisecond)).with(facts)
}
