package test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// asApplied returns the children as JSON with sorted fields, so that the order of the fields doesn't matter.
func asApplied(t testing.TB, g *metacontroller.Group) string {
	t.Helper()
	var all map[string]map[string]any
	text, err := json.Marshal(g.Children)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	must.Succeed(t, err)
	for _, objects := range all { // leaves out the label that Metacontroller adds to children, with every update strategy
		for _, object := range objects {
			labels, _ := object.(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any)
			delete(labels, "controller-uid")
		}
	}
	if text, err = json.MarshalIndent(all, "", " "); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// With server-side apply, a child loses the fields that an answer leaves out: a Service would lose its ports, for example, and a ConfigMap its data.
func TestAnswersMeanTheSameWithEachOfMetacontrollersStrategies(t *testing.T) {
	t.Parallel()
	for name, serverSide := range map[string]bool{"dynamic apply": false, "server-side apply": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{Tools: true})
				s := r.serve()
				g := s.group("web", 2)
				g.ServerSideApply = serverSide
				g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
				g.Spec.Service = &v1alpha1.Service{Ports: []v1alpha1.ServicePort{{Name: "http", Port: 80}}, Annotations: map[string]string{"example.com/ours": "yes"}}
				up(t, g)
				until(t, g, "all children exist", func(metacontroller.Answer) bool { return len(childNames(g)) == 3 && len(endpoints(t, g)) == 2 })
				was := asApplied(t, g)
				same := func(when string) {
					t.Helper()
					if now := asApplied(t, g); now != was {
						t.Errorf("%s, the children are\n%s\nand were\n%s", when, now, was)
					}
				}
				calls := func(when string, hook func() error) {
					t.Helper()
					for range 5 {
						r.must(hook())
						same(when)
						time.Sleep(time.Second)
					}
				}
				sync := func() error { _, err := g.Sync(t.Context()); return err }

				for _, refused := range map[string]func(*v1alpha1.VmGroupSpec){
					"two ports with one number": func(s *v1alpha1.VmGroupSpec) {
						s.Service.Ports = append(s.Service.Ports, v1alpha1.ServicePort{Name: "again", Port: 80})
					},
					"another type, too": func(s *v1alpha1.VmGroupSpec) {
						s.Service.Type = v1alpha1.ServiceClusterIP
						s.Service.Ports = append(s.Service.Ports, v1alpha1.ServicePort{Name: "again", Port: 80})
					},
					"no inventory, too": func(s *v1alpha1.VmGroupSpec) {
						s.Inventory = v1alpha1.InventoryNone
						s.Service.Ports = append(s.Service.Ports, v1alpha1.ServicePort{Name: "again", Port: 80})
					},
				} {
					valid := *g.Spec.DeepCopy()
					g.Edit(refused)
					until(t, g, "the spec is refused", func(a metacontroller.Answer) bool { return a.Status.Phase == v1alpha1.PhaseError })
					calls("while the spec is refused", sync)
					g.Edit(func(s *v1alpha1.VmGroupSpec) { *s = valid })
					up(t, g)
					same("with the former spec again")
				}

				r.Down()
				calls("while vCenter is down", sync)
				g.URL = r.serve().url
				calls("while a new replica has read nothing yet", sync)
				r.Up()
				time.Sleep(20 * time.Second) // until the new replica has read vCenter, its answers have the stored status
				up(t, g)
				same("with vCenter back")

				t.Log("a Service's kind of address can't be changed: it is recreated")
				for _, c := range []struct {
					to  v1alpha1.ServiceType
					has bool // whether the Service has clusterIP None
				}{{v1alpha1.ServiceClusterIP, false}, {v1alpha1.ServiceHeadless, true}} {
					g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Service.Type = c.to })
					gone := false
					for range 10 {
						r.must(sync())
						gone = gone || len(g.Children[plan.KindService]) == 0
					}
					service := string(g.Children[plan.KindService]["web"])
					if !gone || service == "" || strings.Contains(service, `"None"`) != c.has {
						t.Errorf("for %s the Service was deleted: %v; the Service is %s", c.to, gone, service)
					}
				}
				up(t, g)
				same("headless again")

				t.Log("deleted with orphan, or no longer wanted")
				g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Inventory = v1alpha1.InventoryNone })
				r.must(sync())
				if n := len(g.Children[plan.KindConfigMap]); n != 0 {
					t.Errorf("%d ConfigMaps; want 0", n)
				}
				g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Inventory = "" })
				up(t, g)
				same("with its ConfigMap again")
				g.Finalizers = []string{metav1.FinalizerOrphanDependents}
				_, err := g.Finalize(t.Context())
				r.must(err)
				same("deleted with orphan")
			})
		})
	}
}
