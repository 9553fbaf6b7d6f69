package test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// install starts a server with settings of its own, like one of several installs for one vCenter.
func (r *rig) install(folder, clusterID string) *serverReplica {
	return r.serve(func(v *vsphere.Config, _ *loop.Config) { v.Folder, v.ClusterID = folder, clusterID })
}

// targets returns a replica's answer to Prometheus.
func (s *serverReplica) targets() string {
	s.rig.t.Helper()
	client := &http.Client{Transport: &s.rig.hooks}
	res, err := client.Get(s.url + "/sd?port=9100")
	s.rig.must(err)
	defer res.Body.Close() //nolint:errcheck // closing a body that was read can't lose data
	text, err := io.ReadAll(res.Body)
	s.rig.must(err)
	return string(text)
}

// docs/vcenters.md says that each install needs a folder and a --cluster-id of its own.
func TestInstallsForOneVCenterDoNotMeet(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		ours, east := r.install("vm-operator", "prod"), r.install("vm-operator-east", "prod-east")
		web, api := ours.group("web", 2), east.group("api", 2)
		up(t, web)
		up(t, api)
		for folder, want := range map[string][]string{
			"/DC0/vm/vm-operator/default/web": {"web-0+", "web-1+"}, "/DC0/vm/vm-operator-east/default/api": {"api-0+", "api-1+"},
			"/DC0/vm/vm-operator/default/api": nil, "/DC0/vm/vm-operator-east/default/web": nil,
		} {
			if got := r.names(folder); !slices.Equal(got, want) {
				t.Errorf("%s has %v, want %v", folder, got, want)
			}
		}
		for server, c := range map[*serverReplica][2]string{ours: {"web-1", "api-1"}, east: {"api-1", "web-1"}} {
			eventually(t, patience, "Prometheus sees "+c[0], func() bool { return strings.Contains(server.targets(), c[0]) })
			if text := server.targets(); strings.Contains(text, c[1]) {
				t.Errorf("/sd has %s of the other install: %s", c[1], text)
			}
		}
		remove(t, web)
		if got := r.names("/DC0/vm/vm-operator-east/default/api"); !slices.Equal(got, []string{"api-0+", "api-1+"}) {
			t.Errorf("a group of the other install is deleted: %v; want %v", got, []string{"api-0+", "api-1+"})
		}
		if r.vm("/DC0/vm/vm-operator/default/web/web-0") != nil {
			t.Error("a deleted group has a VM")
		}
	})
}

// Both installs use one vCenter, so an install can't find out that a group belonged to the other install. Only admission policies prevent the move.
func TestAnInstallForTheSameVCenterTakesAGroupOverAsItIs(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		ours, east := r.install("vm-operator", "prod"), r.install("vm-operator-east", "prod-east")
		g := ours.group("web", 2)
		up(t, g)
		was := r.vm("/DC0/vm/vm-operator/default/web/web-0").Reference()
		g.Scale(3)
		if a := upAt(t, g, east.url); len(a.Status.Members) != 3 || a.Status.Members[0].MoRef != was.Value {
			t.Errorf("the members were replaced: %v", a.Status.Members)
		}
		old, added := r.names("/DC0/vm/vm-operator/default/web"), r.names("/DC0/vm/vm-operator-east/default/web")
		if !slices.Equal(old, []string{"web-0+", "web-1+"}) || !slices.Equal(added, []string{"web-2+"}) {
			t.Errorf("%v and %v; want %v and %v", old, added, []string{"web-0+", "web-1+"}, []string{"web-2+"})
		}
		remove(t, g)
		if left := append(r.names("/DC0/vm/vm-operator/default/web"), r.names("/DC0/vm/vm-operator-east/default/web")...); len(left) > 0 {
			t.Errorf("the group is deleted, but %v are left", left)
		}
	})
}
