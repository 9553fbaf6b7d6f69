package vcfault

import (
	"testing"

	pbmtypes "github.com/vmware/govmomi/pbm/types"
	vim "github.com/vmware/govmomi/vim25/types"
)

func TestRefusalsOfClonesSayWhatToDo(t *testing.T) {
	network := &vim.CannotAccessNetwork{}
	network.Backing = "web"
	for _, c := range []struct {
		fault         vim.BaseMethodFault
		reason        string
		needsOperator bool
		says          string
	}{
		{&vim.NoCompatibleDatastore{}, ReasonNoCompatibleDatastore, true, "storage policy"},
		{&vim.InvalidDatastore{Name: "ds1"}, ReasonDatastoreInaccessible, true, "ds1"},
		{network, ReasonNetworkUnusable, true, `"web"`},
		{&vim.NoCompatibleHost{Error: []vim.LocalizedMethodFault{{Fault: network}}}, ReasonNetworkUnusable, true, "spec.networks"},
		{&vim.SnapshotCloneNotSupported{}, ReasonSnapshotUnusable, true, "clone.mode: Full"},
		{&vim.SnapshotFault{}, ReasonSnapshotUnusable, true, "the message"},
		{&vim.NicSettingMismatch{}, ReasonCustomizationSpecUnfit, true, "spec.networks"},
		{&vim.UncustomizableGuest{UncustomizableGuestOS: "plan9"}, ReasonCustomizationFailed, true, "plan9"},
		{&vim.CannotDecryptPasswords{}, ReasonCustomizationSpecUnfit, true, "again"},
		{&vim.MissingLinuxCustResources{}, ReasonCustomizationFailed, true, "Linux"},
		{&vim.CustomizationPending{}, ReasonCustomizationFailed, true, "the message"},
		{&vim.InvalidDeviceBacking{}, ReasonInvalidConfiguration, true, "the message"},
		{&pbmtypes.PbmFaultNoPermission{}, ReasonMissingPrivilege, true, "StorageProfile.View"},
	} {
		got := Classify("clone", byCall(c.fault, "the message"))
		if got.Reason != c.reason || got.NeedsOperator != c.needsOperator || !mentions(got.Message, c.says) {
			t.Errorf("%T: got %+v", c.fault, got.Fault)
		}
	}
}
