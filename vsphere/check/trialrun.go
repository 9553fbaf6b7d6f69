package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// trialState is the observed state of the trial's VM.
type trialState struct {
	power                types.VirtualMachinePowerState
	tools, address, name string // of the guest
	nics                 []types.GuestNicInfo
	boot                 *time.Time
	host                 types.ManagedObjectReference
	version              string // config.changeVersion
}

func (t *trial) state(ctx context.Context) (x trialState, err error) {
	_, err = t.read(ctx, t.vm, x.properties()...)
	return x, err
}

func (x *trialState) properties() session.Properties {
	return session.Properties{
		session.To("runtime.powerState", &x.power),
		session.Taking("runtime.bootTime", func(v time.Time) { x.boot = &v }),
		session.To("runtime.host", &x.host),
		session.To("guest.toolsRunningStatus", &x.tools),
		session.To("guest.ipAddress", &x.address),
		session.To("guest.hostName", &x.name),
		session.Taking(session.GuestNet, func(v types.ArrayOfGuestNicInfo) { x.nics = v.GuestNicInfo }),
		session.To("config.changeVersion", &x.version),
	}
}

// running returns what experiments with a powered-on VM lack.
func running(t *trial, ctx context.Context) string {
	if x, err := t.state(ctx); err != nil || x.power != types.VirtualMachinePowerStatePoweredOn {
		return "the VM is not powered on"
	}
	return ""
}

// powerOn powers the VM on like the server: through DRS, if that places it. Most other experiments need it.
func (t *trial) powerOn(ctx context.Context) outcome {
	t.progress("powering on %s", trialName)
	before, err := t.state(ctx)
	if err != nil {
		return failedBy(err)
	}
	cluster, level := t.cluster(before.host), types.DrsBehavior("")
	if !cluster.Standalone && !cluster.Unread && cluster.DRS {
		level = cluster.Level
	}
	began := t.now()
	drsRefused, err := t.v.PowerOn(t.end, t.at.Datacenter, t.vm, level)
	facts := Facts{"byDRS": yes(level != "" && drsRefused == nil), "level": word(level)}
	if err != nil {
		return failedBy(err).with(facts)
	}
	var x trialState
	within(t.end, time.Minute, func(ctx context.Context) bool { // vCenter may return no task to wait for
		x, err = t.state(ctx)
		return err != nil || x.power == types.VirtualMachinePowerStatePoweredOn
	})
	facts["tookMs"], facts["changesVersion"] = millis(t.now().Sub(began)), yes(x.version != before.version)
	seen := "on, with a bootTime; by PowerOnVM_Task"
	if level != "" && drsRefused == nil {
		seen = fmt.Sprintf("on, with a bootTime; by PowerOnMultiVM_Task, %s", level)
	}
	seen += map[bool]string{true: "; the changeVersion changed", false: "; the changeVersion did not change"}[x.version != before.version]
	switch {
	case err != nil:
		return failedBy(err)
	case x.power != types.VirtualMachinePowerStatePoweredOn:
		return outcome{result: Fail, seen: fmt.Sprintf("it is %s at the end of the task", x.power), advice: "check its events in vCenter"}.with(facts)
	case x.boot == nil:
		return refuted("it is on but has no bootTime", "the server identifies a guest's shutdown by the bootTime").with(facts)
	case drsRefused != nil:
		return outcome{result: Warn, seen: fmt.Sprintf("%s, because DRS failed: %s", seen, vcfault.Classify("", drsRefused).Message),
			advice: "members stay on the hosts of their clones: correct the cause or turn DRS off"}.with(facts)
	}
	return confirmed("%s", seen).with(facts)
}

// allocate gives the running VM other shares.
func (t *trial) allocate(ctx context.Context) outcome {
	const consequence = "members are power-cycled for other reservations, limits and shares"
	high, custom := types.SharesInfo{Level: types.SharesLevelHigh}, types.SharesInfo{Level: types.SharesLevelCustom, Shares: 12_345}
	err := t.reconfigure(types.VirtualMachineConfigSpec{
		CpuAllocation: &types.ResourceAllocationInfo{Shares: &high}, MemoryAllocation: &types.ResourceAllocationInfo{Shares: &custom},
	})
	if vcfault.AlreadyIn(err, types.VirtualMachinePowerStatePoweredOn) {
		return refuted("they cannot change while it is on", consequence)
	}
	if err != nil {
		return failedBy(err)
	}
	var cpu, memory types.ResourceAllocationInfo
	if _, err := t.read(ctx, t.vm, session.To("config.cpuAllocation", &cpu), session.To("config.memoryAllocation", &memory)); err != nil {
		return failedBy(err)
	}
	if cpu.Shares == nil || cpu.Shares.Level != high.Level || memory.Shares == nil || *memory.Shares != custom {
		return refuted("it does not have the shares that it was given", consequence)
	}
	return confirmed("changed while it is on")
}

// wantsTPM returns why the VM is not to get a virtual TPM.
func wantsTPM(t *trial, _ context.Context) string {
	switch {
	case t.like == nil || !t.like.Spec.Hardware.VTPM:
		return "no group of -f has hardware.vtpm"
	case t.template.info.tpm:
		return "the template has a virtual TPM"
	case t.template.info.Version < v1alpha1.MinVTPMVersion:
		return "the template has hardware version " + t.template.info.hardware() + "; only members are upgraded"
	}
	return ""
}

// keyOf is the property that shows whether a VM's files are encrypted.
func keyOf(encrypted *bool) session.Property {
	return session.Taking("config.keyId", func(types.CryptoKeyId) { *encrypted = true })
}

// addTPM gives the VM a virtual TPM, as the server does before a member's first power-on.
func (t *trial) addTPM(ctx context.Context) outcome {
	if err := t.off(ctx, t.vm); err != nil {
		return failedBy(err)
	}
	err := t.reconfigure(types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{hardware.AddTPM()}})
	if err != nil {
		return failedBy(hardware.TPMRefusal(err))
	}
	var devices []types.BaseVirtualDevice
	var encrypted bool
	if _, err := t.read(ctx, t.vm, session.Devices(&devices), keyOf(&encrypted)); err != nil {
		return failedBy(err)
	}
	facts := Facts{"encrypted": yes(encrypted)}
	if !hardware.HasTPM(devices) {
		return refuted("it has no virtual TPM after the task that adds one", "members lack the virtual TPM that their group asks for").with(facts)
	}
	return confirmed("added; its files are %s", map[bool]string{true: "encrypted", false: "not encrypted"}[encrypted]).with(facts)
}

// wantsEncryption returns why the VM is not to be encrypted.
func wantsEncryption(t *trial, _ context.Context) string {
	if len(t.draft.Encrypts()) == 0 {
		return "no group of -f has a storagePolicy that encrypts"
	}
	return ""
}

// encrypt encrypts the VM, as the server does before a member's first power-on.
func (t *trial) encrypt(ctx context.Context) outcome {
	if err := t.off(ctx, t.vm); err != nil {
		return failedBy(err)
	}
	now, err := t.v.ReadFresh(ctx, t.vm)
	if err != nil {
		return failedBy(err)
	}
	var config types.VirtualMachineConfigSpec
	hardware.Encrypt(&config, t.draft.Encrypts(), nil, now.Devices)
	if err := t.reconfigure(config); err != nil {
		return failedBy(hardware.EncryptionRefusal(err))
	}
	if now, err = t.v.ReadFresh(ctx, t.vm); err != nil {
		return failedBy(err)
	}
	var home bool
	if _, err := t.read(ctx, t.vm, keyOf(&home)); err != nil {
		return failedBy(err)
	}
	plain := slices.DeleteFunc(disks.In(now.Devices), disks.Encrypted)
	if facts := (Facts{"encrypted": yes(home), "plainDisks": count(len(plain))}); !home || len(plain) > 0 {
		return refuted("its files or disks are not encrypted after the task that assigns the policy", "members run unencrypted").with(facts)
	}
	return confirmed("its files and disks are encrypted")
}

// bootTime reads the bootTime repeatedly, also after a reset: it identifies one run of the VM.
func (t *trial) bootTime(ctx context.Context) outcome {
	const consequence = "a guest would be shut down twice or powered off too early"
	var boots []time.Time
	for reads := range 3 {
		x, err := t.state(ctx)
		if err != nil || x.boot == nil {
			return failedBy(err)
		}
		boots = append(boots, *x.boot)
		if reads == 1 {
			if err := t.do(t.vm, (*object.VirtualMachine).Reset); err != nil {
				return failedBy(err)
			}
		}
	}
	facts := Facts{"readsDifferByMs": millis(boots[1].Sub(boots[0])), "resetChangesByMs": millis(boots[2].Sub(boots[1]))}
	switch {
	case !plan.SameBoot(boots[1], boots[0]):
		return refuted("two reads differ although the VM kept running", consequence).with(facts)
	case !plan.SameBoot(boots[2], boots[1]):
		return refuted("a reset changes the bootTime", consequence).with(facts)
	}
	return confirmed("the same in each read and after a reset").with(facts)
}
