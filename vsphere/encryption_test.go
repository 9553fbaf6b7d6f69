package vsphere

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

const encrypting = "VM Encryption Policy"

// encryption lists the encrypted parts of a VM: its files, and its disks in the order of their keys.
func (w *world) encryption(name string) string {
	w.t.Helper()
	d, err := w.Details(name)
	w.must(err)
	text := fmt.Sprint(d.Config.KeyId != nil)
	slices.SortFunc(d.Disks, func(a, b vcsim.Disk) int { return int(a.Key - b.Key) })
	for _, disk := range d.Disks {
		text += fmt.Sprintf(" %t", disk.Encrypted)
	}
	return text
}

func TestAMemberIsEncryptedWithAllDisksThatHaveNoPolicyOfTheirOwnBeforeItIsPrepared(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		_, err := w.AddStoragePolicy("gold")
		w.must(err)
		w.AddKeyProvider()
		spec := withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 5}, v1alpha1.Disk{Name: "cache", SizeGiB: 2, StoragePolicy: "gold"}, v1alpha1.Disk{Name: "log", SizeGiB: 3, StoragePolicy: encrypting})
		spec.Placement.StoragePolicy, spec.RootDisk = encrypting, &v1alpha1.RootDisk{SizeGiB: 40}
		p.preparedWith(spec)
		if got, want := w.encryption("web-0"), "true true true false true"; got != want {
			t.Errorf("encrypted are %s, want %s", got, want)
		}
		_, _, vm := p.given("web-0")
		if strings.HasPrefix(vm.Prepared, "-") || strings.Contains(vm.Prepared, "encrypt") {
			t.Errorf("web-0's stamp has the preparation %q; want one that is complete and doesn't ask for encryption", vm.Prepared)
		}
		if d, err := w.Details("web-0"); err != nil || len(d.Policies) != 1 {
			t.Errorf("got web-0's storage policies %v, and the error %v; want one policy", d.Policies, err)
		}
	})
}

// A clone that needs only encryption is prepared, too.
func TestUntilAMemberIsEncryptedItsStampSaysThatItIsNotPrepared(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		spec := v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{StoragePolicy: encrypting}}
		p.do(p.shaped(0, spec))
		refused := func(says ...string) {
			t.Helper()
			p.until("the refusal", func() bool { // once what the test did is seen
				_, _, vm := p.given("web-0")
				return vctest.Mentions(p.fault(preparing(vm, spec)).Message, says...)
			})
			if _, _, vm := p.given("web-0"); !strings.HasPrefix(vm.Prepared, "-") || w.encryption("web-0") != "false false" {
				t.Errorf("encrypted are %q, and web-0's preparation is %q; want neither disk nor VM, and one that is not complete", w.encryption("web-0"), vm.Prepared)
			}
		}
		refused("key provider", "snapshots", "spec.placement.storagePolicy", "Cryptographer.RegisterHost")
		w.AddKeyProvider()
		_, err := w.AddSnapshot("web-0", "backup")
		w.must(err)
		refused("snapshots")
		w.must(w.RemoveSnapshots("web-0"))
		p.until("the snapshot is gone", func() bool {
			_, _, vm := p.given("web-0")
			return p.Do(t.Context(), web, preparing(vm, withAttributes("owner", "ann"))) == nil // what another spec adds takes nothing away
		})
		_, _, vm := p.given("web-0")
		if got := w.encryption("web-0"); got != "true true" || strings.HasPrefix(vm.Prepared, "-") {
			t.Errorf("encrypted are %q, and web-0's preparation is %q; want VM and disk, and one that is complete", got, vm.Prepared)
		}
	})
}

func TestWhatCannotBeEncryptedIsRefusedBeforeTheClone(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		_, err := w.AddSnapshot("ubuntu", "base")
		w.must(err)
		w.AddKeyProvider()
		_, err = w.AddStoragePolicy("gold")
		w.must(err)
		by := func(policy string, disks ...v1alpha1.Disk) v1alpha1.VmGroupSpec {
			return v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{StoragePolicy: policy}, Disks: disks}
		}
		linked := by(encrypting)
		linked.Clone.Mode = v1alpha1.CloneLinked
		p.refused(0, linked, vcfault.ReasonInvalidConfiguration, encrypting, "linked clone", "clone.mode: Full", "spec.placement.storagePolicy")
		data := v1alpha1.Disk{Name: "data", SizeGiB: 1, StoragePolicy: encrypting}
		for _, home := range []string{"", "gold"} {
			p.refused(0, by(home, data), vcfault.ReasonInvalidConfiguration, "disk data", "spec.placement.storagePolicy", "spec.disks")
		}
		for _, own := range []string{"", encrypting} {
			p.refused(0, by(encrypting, v1alpha1.Disk{Name: "data", SizeGiB: 1, StoragePolicy: own, Persistent: true}), vcfault.ReasonInvalidConfiguration, "persistent disk data", "spec.disks")
		}
		snapshot := by(encrypting, v1alpha1.Disk{Name: "data", SizeGiB: 1, StoragePolicy: "gold", Persistent: true})
		snapshot.Clone.Snapshot = "base" // of which a full clone has none
		p.made(0, snapshot)
	})
}

// If the server did not know that a policy encrypts, the clone would run unencrypted.
func TestWithoutAnAnswerWhetherAPolicyEncryptsNothingIsCloned(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		spec := v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{StoragePolicy: encrypting}}
		w.LoseReply("PbmQueryIOFiltersFromProfileId", 1)
		p.refused(0, spec, vcfault.ReasonStoragePolicyUnavailable)
		w.Deny("PbmQueryIOFiltersFromProfileId", "StorageProfile.View")
		p.refused(0, spec, vcfault.ReasonMissingPrivilege, "StorageProfile.View")
	})
}
