package vsphere

import (
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestATemplatesFingerprintChangesWithItsDisksAndWithNoEdit(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		is := func() string { return p.state().Template.Fingerprint }
		was := is()
		if len(was) != 10 {
			t.Fatalf("the template's fingerprint is %q; want 10 characters", was)
		}
		before := w.Calls()["RetrievePropertiesEx"]
		w.must(w.Reconfigure("ubuntu", vim.VirtualMachineConfigSpec{Annotation: "patched soon"}))
		w.must(w.SetHotAdd("ubuntu", true, true))
		p.until("the edits are read", func() bool { return w.Calls()["RetrievePropertiesEx"] >= before+2 })
		if err := p.reader.Scan(t.Context()); err != nil || is() != was {
			t.Errorf("after an edit, the template's fingerprint is %s, with the error %v; want %s as before", is(), err, was)
		}
		notified := p.notified("")
		w.must(w.Republish("ubuntu"))
		p.until("the new contents are seen", func() bool { return is() != was && is() != "" })
		if p.notified("") == notified {
			t.Error("the loop was not notified of the template's new contents")
		}
		now := is()
		if err := p.reader.Scan(t.Context()); err != nil || is() != now {
			t.Errorf("after a full read, the template's fingerprint is %s, with the error %v; want %s as before", is(), err, now)
		}
		if two := w.start(); two.state().Template.Fingerprint != now {
			t.Errorf("another server has the template's fingerprint %s; want %s", two.state().Template.Fingerprint, now)
		}
	})
}

func TestATemplateWhoseContentIDsComeAndGoHasOneFingerprintOrNone(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		is := func() string { return p.state().Template.Fingerprint }
		was := is()
		for range 2 {
			w.must(w.ShowContentIDs("ubuntu", false))
			if err := p.reader.Scan(t.Context()); err != nil || is() != "" {
				t.Errorf("without contentId, the template's fingerprint is %q, with the error %v; want none", is(), err)
			}
			w.must(w.ShowContentIDs("ubuntu", true))
			if err := p.reader.Scan(t.Context()); err != nil || is() != was || was == "" {
				t.Errorf("with contentId again, the template's fingerprint is %q, with the error %v; want %q", is(), err, was)
			}
		}
	})
}

func TestATemplatesFingerprintGoesWithItsDisksAndNotWithItsName(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		named := func(name string) plan.Template { return p.State(web, plan.Query{Template: name}).Template }
		was := named("ubuntu")
		w.must(w.Rename("ubuntu", "jammy"))
		p.until("the new name is seen", func() bool { return named("jammy").MoRef != "" })
		if now := named("jammy"); now.Fingerprint != was.Fingerprint || now.MoRef != was.MoRef || named("ubuntu").Fingerprint != "" {
			t.Errorf("the template ubuntu was %+v, and is %+v as jammy; want the same VM and fingerprint, and none as ubuntu", was, now)
		}
		_, err := w.AddTemplate("/DC0/vm", "ubuntu")
		w.must(err)
		p.until("the other one is seen", func() bool { return named("ubuntu").Fingerprint != "" })
		if other := named("ubuntu"); other.Fingerprint == was.Fingerprint || other.MoRef == was.MoRef || named("jammy").Fingerprint != was.Fingerprint {
			t.Errorf("another one of that name is %+v, and that one was %+v", other, was)
		}
	})
}

func TestAServerWithAnotherTemplateStillSeesItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu", "debian"}}).start()
		a, b := p.State(web, plan.Query{Template: "ubuntu"}).Template, p.State(web, plan.Query{Template: "debian"}).Template
		if a.Fingerprint == b.Fingerprint || a.Fingerprint == "" || b.Fingerprint == "" {
			t.Errorf("got the templates %+v and %+v; want different fingerprints", a, b)
		}
	})
}
