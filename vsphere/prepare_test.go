package vsphere

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// preparing returns the plan's step that prepares a VM for a spec.
func preparing(vm plan.VM, spec v1alpha1.VmGroupSpec) plan.Action {
	a := guarded(plan.Prepare, vm)
	a.Args = &plan.Details{Spec: &spec, Prepared: plan.PreparationOf(&spec)}
	return a
}

func withAttributes(pairs ...string) v1alpha1.VmGroupSpec {
	spec := v1alpha1.VmGroupSpec{CustomAttributes: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		spec.CustomAttributes[pairs[i]] = pairs[i+1]
	}
	return spec
}

func tagged(category string, names ...string) v1alpha1.VmGroupSpec {
	return v1alpha1.VmGroupSpec{Tags: want(category, names...)}
}

// withAttributes returns a VM's custom attributes that have a value.
func (w *world) attributes(name string) map[string]string {
	w.t.Helper()
	all, err := w.AttributesOf(name)
	w.must(err)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

func (w *world) tags(name string) string {
	w.t.Helper()
	all, err := w.TagsOf(name)
	w.must(err)
	return strings.Join(all, " ")
}

func (w *world) addTags(category string, names ...string) {
	w.t.Helper()
	for _, name := range names {
		_, err := w.AddTag(category, name)
		w.must(err)
	}
}

func TestAPreparedMemberIsNotPreparedAgain(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		spec := withAttributes("owner", "shop")
		p.do(preparing(vm, spec))
		before, calls := p.vm(vm.MoRef), w.Calls()
		p.do(preparing(before, spec))
		p.do(preparing(vm, spec)) // planned from the state before
		if after := p.vm(vm.MoRef); !reflect.DeepEqual(before, after) || w.Calls()["ReconfigVM_Task"] != calls["ReconfigVM_Task"] || w.Calls()["SetField"] != 1 {
			t.Errorf("the prepared member was %+v, and is %+v, and the calls are %v; want no change, no reconfiguration and one SetField in all", before, after, w.Calls())
		}
	})
}

func TestNoStepTouchesAVMThatChangedSinceThePlanOrIsGone(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm, gone := p.member(0), p.member(1)
		w.must(w.SetExtraConfig("web-0", "x", "y"))
		if f := p.fault(preparing(vm, withAttributes("owner", "shop"))); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonConcurrentAccess)
		}
		w.must(w.Destroy("web-1"))
		if f := p.fault(preparing(gone, withAttributes("owner", "shop"))); f.Reason != vcfault.ReasonGone && f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
			t.Errorf("got the fault %+v; want %s or %s, transient", f, vcfault.ReasonGone, vcfault.ReasonConcurrentAccess)
		}
		other := preparing(vm, withAttributes("owner", "shop"))
		other.Ordinal = 7
		if f := p.fault(other); f.Reason != vcfault.ReasonConcurrentAccess {
			t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonConcurrentAccess)
		}
		if w.Calls()["SetField"] != 0 || w.Calls()["AddCustomFieldDef"] != 0 {
			t.Errorf("got the calls %v; want no attribute set or created", w.Calls())
		}
	})
}

// unprepared creates a member that must be prepared before it is powered on.
func (p *process) unprepared(ordinal int32) plan.VM {
	p.t.Helper()
	if p.state().Folder == "" {
		p.do(plan.Action{Op: plan.CreateFolder})
	}
	a := p.cloning(ordinal)
	changeArgs(&a, func(of *plan.CloneArgs) {
		of.Details = &plan.Details{Spec: &v1alpha1.VmGroupSpec{}, Prepared: "something"}
	})
	p.do(a)
	for _, vm := range p.state().VMs {
		if vm.Ordinal == ordinal && strings.HasPrefix(vm.Prepared, plan.Unprepared) {
			return vm
		}
	}
	p.t.Fatalf("the group has the members %+v; want web-%d unprepared", p.state().VMs, ordinal)
	return plan.VM{}
}

func TestTheNthNetworkIsForTheNthAdapter(t *testing.T) {
	t.Parallel()
	card := func(key int32, mac string) vim.VirtualEthernetCard {
		c := vim.VirtualEthernetCard{MacAddress: mac}
		c.Key = key
		return c
	}
	devices := []vim.BaseVirtualDevice{
		&vim.VirtualVmxnet3{VirtualVmxnet: vim.VirtualVmxnet{VirtualEthernetCard: card(4001, "b")}},
		&vim.VirtualDisk{},
		&vim.VirtualE1000{VirtualEthernetCard: card(4002, "c")},
		&vim.VirtualVmxnet3{VirtualVmxnet: vim.VirtualVmxnet{VirtualEthernetCard: card(4000, "a")}},
	}
	if macs := hardware.MACsOf(devices); !slices.Equal(macs, []string{"a", "b", "c"}) {
		t.Errorf("got the MAC addresses %v; want a, b and c", macs)
	}
	a := preparing(plan.VM{}, v1alpha1.VmGroupSpec{Networks: make([]v1alpha1.Network, 4)})
	var f *vcfault.Error
	if _, err := guestOptions(web, a, "id", devices, nil); !errors.As(err, &f) || f.Reason != vcfault.ReasonTooFewAdapters || !f.NeedsOperator {
		t.Errorf("got %v; want %s, for an operator", err, vcfault.ReasonTooFewAdapters)
	}
	devices = append(devices, &vim.VirtualE1000{VirtualEthernetCard: card(4003, "")})
	if _, err := guestOptions(web, a, "id", devices, nil); !errors.As(err, &f) || !f.Transient {
		t.Errorf("got %v; want a transient fault", err)
	}
}

func TestTheNetworkConfigurationGoesToANewMemberOnceWithItsMACAddresses(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.unprepared(0)
		spec := v1alpha1.VmGroupSpec{Networks: []v1alpha1.Network{{Network: "VM Network"}}}
		p.do(preparing(vm, spec))
		details, err := w.Details("web-0")
		w.must(err)
		metadata := plainMetadata(t, details.ExtraConfig)
		if len(details.NICs) != 1 || !strings.Contains(strings.ToLower(metadata), strings.ToLower(details.NICs[0].MAC)) {
			t.Errorf("web-0 has the adapters %+v and the metadata %s; want one adapter, whose MAC address is in the metadata", details.NICs, metadata)
		}
		w.must(w.SetExtraConfig("web-0", "guestinfo.metadata", ""))
		p.until("the removal of the metadata is seen", func() bool {
			return p.vm(vm.MoRef).ChangeVersion != "" && p.vm(vm.MoRef).ChangeVersion != vm.ChangeVersion
		})
		spec.CustomAttributes = map[string]string{"owner": "shop"}
		p.until("the member is prepared again", func() bool {
			return p.Do(context.Background(), web, preparing(p.vm(vm.MoRef), spec)) == nil
		})
		if text := w.Look("web-0").ExtraConfig["guestinfo.metadata"]; text != "" {
			t.Errorf("the second preparation gave web-0 the metadata %q; want none", text)
		}
		more := v1alpha1.VmGroupSpec{Networks: make([]v1alpha1.Network, 2)}
		if f := p.fault(preparing(p.unprepared(1), more)); f.Reason != vcfault.ReasonTooFewAdapters || !f.NeedsOperator {
			t.Errorf("got the fault %+v; want %s, for an operator", f, vcfault.ReasonTooFewAdapters)
		}
	})
}

func TestTagsAreAttachedBeforePowerOnAndUnwantedOnesDetached(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.addTags("tier", "web", "db", "theirs")
		p := w.start()
		vm := p.member(0)
		p.do(preparing(vm, tagged("tier", "web", "db")))
		if vm = p.vm(vm.MoRef); w.tags("web-0") != "tier/db tier/web" || vm.Power != plan.PoweredOff {
			t.Errorf("web-0 is %s and has the tags %q; want %s, and both tags", vm.Power, w.tags("web-0"), plan.PoweredOff)
		}
		spec := tagged("tier", "db")
		p.do(preparing(vm, spec))
		if w.tags("web-0") != "tier/db" || p.vm(vm.MoRef).Prepared != plan.PreparationOf(&spec) {
			t.Errorf("web-0 has the tags %q and the preparation %q; want tier/db alone, and the preparation of the spec", w.tags("web-0"), p.vm(vm.MoRef).Prepared)
		}
		p.do(preparing(p.vm(vm.MoRef), v1alpha1.VmGroupSpec{}))
		if w.tags("web-0") != "" || p.vm(vm.MoRef).Prepared != "" {
			t.Errorf("web-0 has the tags %q and the preparation %q; want neither", w.tags("web-0"), p.vm(vm.MoRef).Prepared)
		}
	})
}

func TestAMissingTagIsReportedAndNothingIsDone(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.addTags("tier", "web")
		p := w.start()
		vm := p.member(0)
		spec := tagged("tier", "web", "wbe")
		spec.CustomAttributes = map[string]string{"owner": "shop"}
		if f := p.fault(preparing(vm, spec)); f.Reason != vcfault.ReasonTagNotFound || !f.NeedsOperator || !strings.Contains(f.Message, `"wbe"`) || !strings.Contains(f.Message, "only web") {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q, with %q", f, vcfault.ReasonTagNotFound, `"wbe"`, "only web")
		}
		if now := p.vm(vm.MoRef); w.tags("web-0") != "" || len(w.attributes("web-0")) != 0 || now.Prepared != "" {
			t.Errorf("web-0 has the tags %q, the attributes %v and the preparation %q; want none of them", w.tags("web-0"), w.attributes("web-0"), now.Prepared)
		}
		w.addTags("tier", "wbe")
		p.do(preparing(p.vm(vm.MoRef), spec))
	})
}

func TestTwoServersPrepareMembersAtOnceWithTagsToCreate(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		one, two := w.start(), w.start()
		vms := []plan.VM{one.member(0), one.member(1)}
		spec := tagged("tier", "web", "db")
		for i := range spec.Tags {
			spec.Tags[i].Create = true
		}
		var all sync.WaitGroup
		for i, p := range []*process{one, two} {
			p.until("both are seen", func() bool { return len(p.state().VMs) == 2 })
			all.Go(func() { p.do(preparing(vms[i], spec)) })
		}
		all.Wait()
		for _, name := range []string{"web-0", "web-1"} {
			if w.tags(name) != "tier/db tier/web" {
				t.Errorf("%s has the tags %q; want tier/db and tier/web", name, w.tags(name))
			}
		}
	})
}

func TestALostSessionIsNoticedAndNoRESTSessionIsLeftBehind(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.addTags("tier", "web", "db")
		p := w.start()
		vm := p.member(0)
		if n := w.RESTSessions(); n != 0 {
			t.Errorf("a server that needs no REST session has %d; want 0", n)
		}
		p.do(preparing(vm, tagged("tier", "web")))
		was := p.notified("")
		w.DropSessions()
		p.until("the inventory is known again", func() bool { return p.notified("") >= was+2 && p.state().Known })
		p.do(preparing(p.vm(vm.MoRef), tagged("tier", "web", "db")))
		if w.tags("web-0") != "tier/db tier/web" {
			t.Errorf("web-0 has the tags %q; want tier/db and tier/web, although the session was lost", w.tags("web-0"))
		}
		if n := w.RESTSessions(); n != 1 {
			t.Errorf("vCenter has %d REST sessions; want one", n)
		}
		p.stop()
		if w.RESTSessions() != 0 || w.Sessions() != 0 {
			t.Errorf("after the process has stopped, %d REST sessions and %d others are left; want 0 and 0", w.RESTSessions(), w.Sessions())
		}
	})
}

func TestAPasswordThatTheRESTAPIRefusesIsTriedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, User: "vmgroup", Password: "pass"})
		w.addTags("tier", "web")
		p := w.start()
		vm := p.member(0)
		w.SetPassword("other")
		for range 3 {
			if f := p.fault(preparing(p.vm(vm.MoRef), tagged("tier", "web"))); f.Reason != vcfault.ReasonInvalidLogin || !f.NeedsOperator || strings.Contains(f.Message, `"pass"`) {
				t.Errorf("got the fault %+v; want %s, for an operator, without %q", f, vcfault.ReasonInvalidLogin, `"pass"`)
			}
		}
		if _, refused := w.Logins(); refused != 1 {
			t.Errorf("vCenter refused %d logins; want one", refused)
		}
		p.do(actionOn(plan.PowerOn, vm)) // the SOAP session still works
	})
}

func TestARetryMakesUpForALostReplyAboutTags(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.addTags("tier", "web", "db")
		p := w.start()
		moRef := p.member(0).MoRef
		p.do(preparing(p.vm(moRef), tagged("tier", "web")))
		for _, action := range []string{"list-attached-tags", session.DetachTags, session.AttachTags} {
			w.LoseReply(http.MethodPost+" /rest/com/vmware/cis/tagging/tag-association?~action="+action, 1)
			if f := p.fault(preparing(p.vm(moRef), tagged("tier", "db"))); f.Reason != vcfault.ReasonVCenterUnreachable || !f.Transient {
				t.Errorf("without the reply to %s, got the fault %+v; want %s, transient", action, f, vcfault.ReasonVCenterUnreachable)
			}
		}
		p.do(preparing(p.vm(moRef), tagged("tier", "db")))
		if w.tags("web-0") != "tier/db" {
			t.Errorf("web-0 has the tags %q; want tier/db alone", w.tags("web-0"))
		}
	})
}

// Tags that are no longer wanted are removed even if an unfinished preparation added them. (Found by
// TestChaos, seed 60068: a tag that had been in the spec for 100 ms stayed.)
func TestTagsAndAttributesOfAnUnfinishedPreparationAreRemoved(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.addTags("tier", "web", "db")
		p := w.start()
		attach := http.MethodPost + " /rest/com/vmware/cis/tagging/tag-association?~action=" + session.AttachTags
		for name, moRef := range map[string]string{"web-0": p.member(0).MoRef, "web-1": p.unprepared(1).MoRef} {
			for call, spec := range map[string]v1alpha1.VmGroupSpec{attach: tagged("tier", "db"), "SetField": withAttributes("owner", "shop")} {
				w.LoseReply(call, 1)
				p.fault(preparing(p.vm(moRef), spec))
				if w.tags(name) == "" && w.attributes(name)["owner"] == "" {
					t.Fatalf("%s: %s was not carried out", name, call)
				}
				p.do(preparing(p.vm(moRef), v1alpha1.VmGroupSpec{}))
				if w.tags(name) != "" || w.attributes(name)["owner"] != "" || p.vm(moRef).Prepared != "" {
					t.Errorf("after a lost reply to %s, %s has the tags %q, the attributes %v and the preparation %q; want none of the test's", call, name, w.tags(name), w.attributes(name), p.vm(moRef).Prepared)
				}
			}
		}
	})
}

func TestAPreparationInProgressListsOldAndNewTags(t *testing.T) {
	t.Parallel()
	one, both := `{"tags":["a/b"],"networks":true,"digest":"d"}`, `{"tags":["c/d"],"attributes":["x"],"digest":"e"}`
	for _, c := range []struct{ former, wanted, begun string }{
		{one, both, `{"tags":["a/b","c/d"],"attributes":["x"],"networks":true,"digest":""}`},
		{plan.Unprepared + one, both, plan.Unprepared + `{"tags":["a/b","c/d"],"attributes":["x"],"networks":true,"digest":""}`},
		{plan.Unprepared, one, plan.Unprepared + `{"tags":["a/b"],"digest":""}`},
		{"", both, `{"tags":["c/d"],"attributes":["x"],"digest":""}`},
		{one, "", `{"tags":["a/b"],"networks":true,"digest":""}`},
	} {
		if got := plan.PreparationBegun(c.former, c.wanted); got != c.begun {
			t.Errorf("%s, then %s: %s; want %s", c.former, c.wanted, got, c.begun)
		}
	}
}

func TestAPreparationsTextIsParsedAndAnInvalidOneIsEmpty(t *testing.T) {
	t.Parallel()
	want := plan.Preparation{Tags: []string{"a/b"}, Attributes: []string{"x"}, Networks: true, Digest: "d"}
	text, err := json.Marshal(want)
	must.Succeed(t, err)
	if got := plan.PreparationIn(string(text)); !reflect.DeepEqual(got, want) {
		t.Errorf("got the preparation %+v; want %+v", got, want)
	}
	for _, text := range []string{"", "{", `{"tags":7}`} {
		if got := plan.PreparationIn(text); !reflect.DeepEqual(got, plan.Preparation{}) {
			t.Errorf("from the text %q, got the preparation %+v; want the zero one", text, got)
		}
	}
}

// plainMetadata is the guest's metadata as cloud-init reads it.
func plainMetadata(t *testing.T, extraConfig map[string]string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(extraConfig["guestinfo.metadata"])
	must.Succeed(t, err)
	if !strings.HasPrefix(extraConfig["guestinfo.metadata.encoding"], "gz") {
		return string(raw)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(raw))
	must.Succeed(t, err)
	plain, err := io.ReadAll(unzip)
	must.Succeed(t, err)
	return string(plain)
}

func want(category string, names ...string) (all []v1alpha1.Tag) {
	for _, name := range names {
		all = append(all, v1alpha1.Tag{Category: category, Name: name})
	}
	return all
}
