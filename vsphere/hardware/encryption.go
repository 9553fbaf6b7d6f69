// This file encrypts members by storage policies, and explains what vCenter lacks for it.

package hardware

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Encrypt adds to a change of a VM that is off the policies that encrypt its files and its disks, except persistent disks and disks with a policy
// of their own. by has the ids of the policies, as plan.Preparation.Encrypt has them. given are the disks of the spec.
func Encrypt(config *types.VirtualMachineConfigSpec, by map[string]string, given []plan.MemberDisk, devices []types.BaseVirtualDevice) {
	if len(by) == 0 {
		return
	}
	config.VmProfile = places.Profile(by[""])
	for _, disk := range disks.In(devices) {
		name := ""
		if i := slices.IndexFunc(given, func(d plan.MemberDisk) bool { return d.Name != "" && disks.Find(devices, &d) == disk }); i >= 0 {
			name = given[i].Name
		}
		if id := by[name]; id != "" {
			config.DeviceChange = append(config.DeviceChange, &types.VirtualDeviceConfigSpec{
				Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: disk, Profile: places.Profile(id)})
		}
	}
}

// EncryptionRefusal explains a refusal to encrypt a VM by what vCenter needs for encryption. It returns other errors unchanged.
func EncryptionRefusal(err error) error {
	return keysMissing(err, "The VM is not encrypted, and is not powered on: vCenter needs a default key provider", ", and the VM no snapshots; or set another spec.placement.storagePolicy")
}

// TPMRefusal does so for a refusal to add a virtual TPM.
func TPMRefusal(err error) error {
	return keysMissing(err, "The VM gets no virtual TPM: vCenter needs a default key provider", "; or remove spec.hardware.vtpm")
}

// keysMissing explains a refusal, unless its reason is a privilege, a full datastore or a temporary state.
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
