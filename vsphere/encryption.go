// This file is what encrypts members: storage policies, and what vCenter needs for that.

package vsphere

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Encrypt makes a change of a VM that is off encrypt it, by the ids of policies as plan.Preparation.Encrypt has them: its files, and each disk
// but persistent ones and those that have a policy of their own. given are the disks of the spec.
func Encrypt(config *types.VirtualMachineConfigSpec, by map[string]string, given []plan.MemberDisk, devices []types.BaseVirtualDevice) {
	if len(by) == 0 {
		return
	}
	config.VmProfile = profileOf(by[""])
	for _, disk := range disks.In(devices) {
		name := ""
		if i := slices.IndexFunc(given, func(d plan.MemberDisk) bool { return d.Name != "" && disks.Find(devices, &d) == disk }); i >= 0 {
			name = given[i].Name
		}
		if id := by[name]; id != "" {
			config.DeviceChange = append(config.DeviceChange, &types.VirtualDeviceConfigSpec{
				Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: disk, Profile: profileOf(id)})
		}
	}
}

// EncryptionRefusal says what vCenter needs to encrypt a VM, if that is why it refused.
func EncryptionRefusal(err error) error {
	return keysMissing(err, "The VM is not encrypted, and is not powered on: vCenter needs a default key provider", ", and the VM no snapshots; or set another spec.placement.storagePolicy")
}

// TPMRefusal says what vCenter needs for a virtual TPM, if that is why it refused to add one.
func TPMRefusal(err error) error {
	return keysMissing(err, "The VM gets no virtual TPM: vCenter needs a default key provider", "; or remove spec.hardware.vtpm")
}

// keysMissing explains a refusal that has another reason than a privilege, a full datastore or a moment.
func keysMissing(err error, what, instead string) error {
	if err == nil {
		return nil
	}
	why := vcfault.Classify("", err)
	if !why.NeedsOperator && why.Reason != vcfault.ReasonInternal && why.Reason != vcfault.ReasonInvalidState ||
		why.Reason == vcfault.ReasonMissingPrivilege || why.Reason == vcfault.ReasonDatastoreFull {
		return err
	}
	explained := vcfault.ForRetry
	if why.NeedsOperator {
		explained = vcfault.ForOperator
	}
	e := explained(why.Reason, "%s, its hosts encryption mode (or the server's user the privilege Cryptographer.RegisterHost)%s. %s", what, instead, why.Message)
	e.Err = err
	return e
}
