package vsphere

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestAttributesAreDefinedSetChangedAndEmptiedAndForeignOnesStay(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		moRef := p.member(0).MoRef
		_, err := w.AddAttribute("theirs")
		w.must(err)
		p.do(preparing(p.vm(moRef), withAttributes("theirs", "x")))
		w.must(w.SetExtraConfig("web-0", stamp.Key, strings.Replace(w.stampOf("web-0"), "theirs", "forgotten", 1))) // now it is an unmanaged VM's
		p.until("the stamp is seen", func() bool { return strings.Contains(p.vm(moRef).Prepared, "forgotten") })
		for _, c := range []struct {
			spec v1alpha1.VmGroupSpec
			has  map[string]string
		}{
			{withAttributes("owner", "shop", "tier", "web"), map[string]string{"owner": "shop", "tier": "web", "theirs": "x"}},
			{withAttributes("owner", "billing", "tier", "web"), map[string]string{"owner": "billing", "tier": "web", "theirs": "x"}},
			{withAttributes("owner", "billing"), map[string]string{"owner": "billing", "theirs": "x"}},
			{withAttributes(), map[string]string{"theirs": "x"}},
		} {
			p.do(preparing(p.vm(moRef), c.spec))
			if has := w.attributes("web-0"); !maps.Equal(has, c.has) {
				t.Errorf("web-0 has the custom attributes %v; want %v", has, c.has)
			}
			if vm := p.vm(moRef); vm.Prepared != plan.PreparationOf(&c.spec) {
				t.Errorf("web-0 has the preparation %q; want that of the spec", vm.Prepared)
			}
		}
		if strings.Contains(w.stampOf("web-0"), "prepared") {
			t.Errorf("web-0's stamp is %s; want no preparation in it", w.stampOf("web-0"))
		}
	})
}

func TestTwoServersPrepareMembersAtOnceWithAttributesToCreate(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		one, two := w.start(), w.start()
		vms := []plan.VM{one.member(0), one.member(1)}
		var all sync.WaitGroup
		for i, p := range []*process{one, two} {
			p.until("both are seen", func() bool { return len(p.state().VMs) == 2 })
			all.Go(func() { p.do(preparing(vms[i], withAttributes("owner", "shop", "tier", "web"))) })
		}
		all.Wait()
		for _, name := range []string{"web-0", "web-1"} {
			if has := w.attributes(name); !maps.Equal(has, withAttributes("owner", "shop", "tier", "web").CustomAttributes) {
				t.Errorf("%s has the custom attributes %v; want those of the spec", name, has)
			}
		}
	})
}

func TestARetryMakesUpForALostReplyToAnAttribute(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		spec := withAttributes("owner", "shop", "tier", "web")
		moRef := p.member(0).MoRef
		for _, call := range []string{"AddCustomFieldDef", "SetField", "ReconfigVM_Task"} {
			w.LoseReply(call, 1)
			if f := p.fault(preparing(p.vm(moRef), spec)); f.Reason != vcfault.ReasonVCenterUnreachable {
				t.Errorf("without the reply to %s, got the fault %+v; want %s", call, f, vcfault.ReasonVCenterUnreachable)
			}
			p.until("the inventory is known again", func() bool { return p.state().Known })
		}
		p.until("the member is prepared", func() bool {
			err := p.Do(context.Background(), web, preparing(p.vm(moRef), spec))
			var f *vcfault.Error
			if err != nil && (!errors.As(err, &f) || f.Reason != vcfault.ReasonConcurrentAccess) {
				t.Fatal(err)
			}
			return err == nil
		})
		if has := w.attributes("web-0"); !maps.Equal(has, spec.CustomAttributes) {
			t.Errorf("web-0 has the custom attributes %v; want %v", has, spec.CustomAttributes)
		}
	})
}

func TestAnAttributeThatIsNotForVMsAndAMissingPrivilegeAreReported(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.FailCall("AddCustomFieldDef", &vim.DuplicateName{Name: "owner"}, 1)
		if f := p.fault(preparing(vm, withAttributes("owner", "shop"))); f.Reason != vcfault.ReasonAttributeConflict || !f.NeedsOperator || !strings.Contains(f.Message, `"owner"`) {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q", f, vcfault.ReasonAttributeConflict, `"owner"`)
		}
		w.Deny("AddCustomFieldDef", "Global.ManageCustomFields")
		if f := p.fault(preparing(vm, withAttributes("owner", "shop"))); f.Reason != vcfault.ReasonMissingPrivilege || !strings.Contains(f.Message, "Global.ManageCustomFields") {
			t.Errorf("got the fault %+v; want %s, with %q", f, vcfault.ReasonMissingPrivilege, "Global.ManageCustomFields")
		}
		w.HealCalls()
		p.do(preparing(p.vm(vm.MoRef), withAttributes("owner", "shop")))
	})
}
