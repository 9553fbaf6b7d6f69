// This file handles a clone that vCenter refused: it changes the spec for another try, finds the object that has the name, and explains the fault.

package vsphere

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// dropDeniedFields removes a field of the clone that is optional and that the server's account lacks the privilege for, and reports whether to try
// the clone again. Roles that were created for older versions of the server lack both privileges.
func (b *cloneBuilder) dropDeniedFields(err error) bool {
	var denied types.BaseNoPermission
	if _, is := fault.As(err, &denied); !is {
		return false
	}
	lacks := []string{denied.GetNoPermission().PrivilegeId}
	for _, m := range denied.GetNoPermission().MissingPrivileges {
		lacks = append(lacks, m.PrivilegeIds...)
	}
	switch config := b.spec.Config; {
	case config.Annotation != "" && slices.Contains(lacks, "VirtualMachine.Config.Annotation"):
		config.Annotation = ""
	case config.ManagedBy != nil && slices.Contains(lacks, "VirtualMachine.Config.ManagedBy"):
		config.ManagedBy = nil
	default:
		return false
	}
	return true
}

// keepTemplateAdapters keeps adapters of the template if vCenter refused the clone because the template boots from one, and reports whether to try
// the clone again. (fog-vsphere always keeps them: fog/fog-vsphere#98.)
func (b *cloneBuilder) keepTemplateAdapters(err error) bool {
	keep := min(len(b.source.NICs()), len(b.backings))
	if keep == 0 || b.kept || !hardware.RefusedForBootOrder(err) {
		return false
	}
	config := b.spec.Config
	others := slices.DeleteFunc(slices.Clone(config.DeviceChange), func(c types.BaseVirtualDeviceConfigSpec) bool {
		_, is := c.GetVirtualDeviceConfigSpec().Device.(types.BaseVirtualEthernetCard)
		return is
	})
	b.kept, config.DeviceChange = true, append(hardware.ReplaceNICs(b.source.NICs(), b.backings, keep), others...)
	return true
}

// clearHost leaves the choice of host to vCenter if the chosen host may be the reason of the refusal, and reports whether to try the clone again.
func (b *cloneBuilder) clearHost(err error) bool {
	if b.spec.Location.Host == nil || !hosts.MayBeBlamed(err) {
		return false
	}
	b.spec.Location.Host = nil
	return true
}

// resolveNameConflict finds the object that has a new member's name, and reads it. If the object is the member itself, from an earlier try or
// another replica, that is success.
func (b *cloneBuilder) resolveNameConflict(ctx context.Context, holder types.ManagedObjectReference) error {
	if holder.Value == "" {
		var err error
		if holder, err = b.Child(ctx, inventory.FolderRef(b.action.Folder()), b.action.Key); err != nil {
			return err
		}
	}
	if holder.Value == "" {
		return vcfault.ForRetry(plan.ReasonCloneRunning, "vCenter says that the name %s is taken, and shows no object of that name: a clone may be running; the server looks again.", b.action.Key)
	}
	waits := vcfault.ForRetry(plan.ReasonCloneRunning, "The name %s is taken by the VM %s, whose configuration vCenter does not show: its clone may be running; the server looks again.", b.action.Key, holder.Value)
	return b.nameTaken(ctx, holder, b.action.Key, waits, func() (known bool, err error) { return b.identify(ctx, holder) })
}

// identify reads the object that has a new member's name, and reports whether the inventory knows whose it is. It succeeds if it is the member itself.
func (b *cloneBuilder) identify(ctx context.Context, holder types.ManagedObjectReference) (known bool, err error) {
	if err := b.reader.Read(ctx, holder); err != nil {
		return false, err
	}
	m, path, known := b.inventory.Holder(holder.Value)
	switch {
	case !known:
		return false, nil
	case m != nil && m.Stamp.UID == b.ref.UID && b.inventory.Evidence.IsStray(m):
	case m != nil && m.Stamp.UID == b.ref.UID && !m.Stamp.Quarantined.IsZero():
		return true, vcfault.ForRetry(vcfault.ReasonNameHeld, "A removed VM of the group still has the name %s; the server renames that VM first.", b.action.Key)
	case m != nil && m.Stamp.UID == b.ref.UID && m.Stamp.Ordinal == b.action.Ordinal:
		return true, nil
	case m != nil && m.Stamp.Namespace == b.ref.Namespace && m.Stamp.Name == b.ref.Name && m.Stamp.UID != b.ref.UID:
		return true, errFormerMember(b.ref, b.cfg.ClusterID, &m.Stamp, path)
	}
	if id := b.inventory.CopyOf(holder.Value, b.ref.UID); id != "" {
		return true, vcfault.ForOperator(vcfault.ReasonNameConflict, "The name is taken by %s, which has the group's stamp, but not the instanceUuid %s in that stamp: "+
			"if it is the member, set its instanceUuid to that again; otherwise rename, move or remove it.", path, id)
	}
	return true, vcfault.ForOperator(vcfault.ReasonNameConflict, "The name is taken by %s, which is not this member: rename, move or remove it.", path)
}

// errFormerMember says how to adopt a VM that a former group of the same namespace and name left behind: the group was lost and applied again.
// The message is the same for all members of the former group.
func errFormerMember(ref plan.Ref, cluster string, s *stamp.Stamp, path string) error {
	folder := path[:strings.LastIndexByte(path, '/')]
	held := "The name is taken in " + folder + " by a VM of "
	adopt := fmt.Sprintf("list its path in spec.adopt, and start the server with --adopt-from %s=%s", ref.Namespace, folder)
	const otherwise = "Otherwise rename, move or remove the VM."
	switch {
	case s.Cluster != cluster:
		return vcfault.ForOperator(vcfault.ReasonNameConflict, "%s%s in the cluster %q (UID %s): give each cluster a --folder of its own, or rename, move or remove the VM.",
			held, ref, s.Cluster, s.UID)
	case s.Cluster == "":
		return vcfault.ForOperator(vcfault.ReasonNameConflict, "%sa former %s, or of one in another cluster (UID %s). To adopt the VM, remove the key %s from its configuration, %s (and with --cluster-id, so that the key can stay the next time). %s",
			held, ref, s.UID, stamp.Key, adopt, otherwise)
	}
	return vcfault.ForOperator(vcfault.ReasonNameConflict, "%sa former %s (UID %s). To adopt the VM, %s. %s", held, ref, s.UID, adopt, otherwise)
}

// failure drops the kept answers if an error shows that they may be outdated, and returns the error to report.
func (b *cloneBuilder) failure(ctx context.Context, err error) error {
	gone, at := vcfault.MissingObject(err), b.settings
	if gone.Value != "" || vcfault.Has[types.BaseInvalidArgument](err) || vcfault.Has[*types.NotFound](err) {
		b.lookups.forget() // the next try reads them again
	}
	if gone.Value != "" && (gone == at.Pool || at.Datastore != nil && gone == *at.Datastore) {
		_, settingsErr := b.reloadSettings(ctx) // the settings may find another object of that name now; if they find none, their fault is reported
		return errors.Join(settingsErr, err)
	}
	return b.refusal(err)
}

// refusal explains a fault of the clone that vcfault cannot explain without the template or the spec.
func (b *cloneBuilder) refusal(err error) error {
	template, refused := b.details.Spec.Template, vcfault.Classify("", err)
	var wrong types.BaseInvalidArgument
	_, argument := fault.As(err, &wrong)
	var e *vcfault.Error
	var depends plan.FaultScope
	switch {
	case hardware.RefusedForBootOrder(err):
		depends = plan.OnTemplate | plan.OnNetworks
		e = vcfault.ForOperator(vcfault.ReasonInvalidConfiguration, "The template %q boots from a network adapter that spec.networks leaves out: take network adapters out of its boot order, or give spec.networks an entry for each.", template)
	case vcfault.Has[*types.NicSettingMismatch](err) && len(b.backings) > 0:
		depends = plan.OnTemplate | plan.OnNetworks
		e = vcfault.ForOperator(vcfault.ReasonCustomizationSpecUnfit, "vCenter refuses to customize a clone of the template %q that gets other network adapters: give the template as many as spec.networks has (%d; it has %d), or remove spec.customizationSpec.",
			template, len(b.backings), len(b.source.NICs()))
	case vcfault.Has[types.BaseInvalidHostState](err):
		depends = plan.OnTemplate | plan.OnPool
		e = vcfault.ForRetry(vcfault.ReasonHostNotConnected, "The host of the template %q, or the one that is to run the VM, is in maintenance mode, in standby or disconnected; the server tries again.", template)
	case refused.Reason == vcfault.ReasonInvalidConfiguration && argument:
		e = vcfault.ForOperator(vcfault.ReasonInvalidConfiguration, "vCenter refuses an argument of the clone (%s): correct what causes it in the template %q or in the spec. %s",
			cmp.Or(wrong.GetInvalidArgument().InvalidProperty, "it does not say which"), template, refused.Message)
	case refused.Reason == vcfault.ReasonNotSupported && b.spec.Snapshot != nil:
		depends = plan.OnTemplate
		e = vcfault.ForOperator(vcfault.ReasonSnapshotUnusable, "vCenter cannot clone the template %q from that snapshot: set clone.mode: Full and leave spec.clone.snapshot out, or take another snapshot. %s", template, refused.Message)
	default:
		return err
	}
	e.Err, e.Scope = err, depends
	return e
}
