package test

import (
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// tagged is a group of two with a tag and an attribute, up at two replicas of the server.
func (r *rig) tagged() (g *metacontroller.Group, servers []*serverReplica) {
	r.t.Helper()
	_, err := r.AddTag("firewall", "web")
	r.must(err)
	servers = []*serverReplica{r.serve(), r.serve()}
	g = servers[0].group("web", 2)
	g.Spec.Tags, g.Spec.CustomAttributes = []v1alpha1.Tag{{Category: "firewall", Name: "web"}}, map[string]string{"owner": "shop"}
	up(r.t, g)
	return g, servers
}

// called calls the group for so long, at one replica after the other, and returns how often a VM was reconfigured.
func (r *rig) called(g *metacontroller.Group, servers []*serverReplica, during time.Duration) int {
	r.t.Helper()
	before := r.Calls()["ReconfigVM_Task"]
	for n, end := 0, time.Now().Add(during); time.Now().Before(end); n++ {
		g.URL = servers[n%len(servers)].url
		_, err := g.Sync(within(r.t))
		r.must(err)
		time.Sleep(2 * time.Second)
	}
	return r.Calls()["ReconfigVM_Task"] - before
}

func (r *rig) allTagged() {
	r.t.Helper()
	for _, vm := range r.members() {
		if tags := value(r.TagsOf(vm.Path)); len(tags) != 1 || tags[0] != "firewall/web" {
			r.t.Errorf("%s has the tags %v, want firewall/web", vm.Name, tags)
		}
	}
}

// vCenter keeps tags by the moRef: firewalls and backups no longer know a VM that returned.
func TestAVMThatReturnsWithAnotherMoRefGetsItsTagsBack(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		g, servers := r.tagged()
		was := refs(r.members())
		r.must(r.removeAndAddHost())
		r.called(g, servers, 5*time.Minute)
		if is := refs(r.members()); is["web-0"] == was["web-0"] {
			t.Fatalf("the members are %v as before", is)
		}
		r.allTagged()
		if n := r.called(g, servers, 10*time.Minute); n > 0 {
			t.Errorf("then %d more reconfigurations in ten minutes, want none", n)
		}
	})
}

func TestTryAgainBringsTagsBackThatSomebodyDetached(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		g, servers := r.tagged()
		for n, ask := range []string{"2026-11-29T21:00:00Z", "again"} {
			var all []types.ManagedObjectReference
			for _, vm := range r.members() {
				all = append(all, vm.Ref)
			}
			r.must(r.Untag(all...))
			g.Annotations = map[string]string{v1alpha1.AnnotationTryAgain: ask}
			if calls := r.called(g, servers, 5*time.Minute); calls > 12 { // two replicas may do that at once, for the annotation and for vCenter's event
				t.Errorf("ask %d: %d reconfigurations of two members, want a few", n, calls)
			}
			r.allTagged()
			if calls := r.called(g, servers, 10*time.Minute); calls > 0 {
				t.Errorf("ask %d: then %d more reconfigurations in ten minutes, want none", n, calls)
			}
		}
	})
}

// Its events name a VM only by its name, so whoever detaches a tag from another VM of that name causes one comparison, and nothing else.
func TestATagThatSomebodyDetachedComesBack(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		g, servers := r.tagged()
		r.must(r.Untag(r.members()[0].Ref))
		if calls := r.called(g, servers, 3*time.Minute); calls == 0 || calls > 4 { // two replicas may do that
			t.Errorf("%d reconfigurations of one member, want a few", calls)
		}
		r.allTagged()
		if calls := r.called(g, servers, 10*time.Minute); calls > 0 {
			t.Errorf("then %d more reconfigurations in ten minutes, want none", calls)
		}
		r.must(r.Untag(r.members()[0].Ref)) // and nobody notices, because no server runs
		for _, s := range servers {
			s.stop()
		}
		time.Sleep(time.Hour)
		again := r.serve()
		r.called(g, []*serverReplica{again}, 3*time.Minute)
		r.allTagged()
	})
}
