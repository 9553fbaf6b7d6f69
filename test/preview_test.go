package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// ask posts the group of a manifest file to a path such as /plan; if the file is nil, it sends a GET.
func ask(t *testing.T, g *metacontroller.Group, path string, file *v1alpha1.VmGroup, finalizing bool) (status int, answer string) {
	t.Helper()
	method, body := http.MethodGet, []byte(nil)
	if file != nil {
		method = http.MethodPost
		var err error
		if body, err = json.Marshal(map[string]any{"parent": file, "finalizing": finalizing}); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(context.Background(), method, g.URL+path, bytes.NewReader(body))
	must.Succeed(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := g.Client.Do(request)
	must.Succeed(t, err)
	defer response.Body.Close() //nolint:errcheck // closing a body that was read can't lose data
	text, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return response.StatusCode, string(text)
}

// strangers are members in a file's status that vCenter never had.
func strangers(n int) (all []v1alpha1.Member) {
	for i := range n {
		all = append(all, v1alpha1.Member{Name: fmt.Sprintf("web-%d", 100+i), Ordinal: int32(100 + i%800), MoRef: fmt.Sprintf("vm-9%05d", i), InstanceUUID: fmt.Sprintf("5000-%d", i)})
	}
	return all
}

// scribble overwrites a part of the status in a manifest file with invalid text.
func scribble(rng *rand.Rand, file *v1alpha1.VmGroup) {
	for range 1 + rng.IntN(4) {
		switch s := &file.Status; rng.IntN(13) {
		case 0:
			s.Members = append(s.Members, strangers(1+rng.IntN(50))...)
		case 1:
			s.Members = strangers(3)
		case 2:
			s.Quarantined = append(s.Quarantined, v1alpha1.Quarantined{Name: "web-9", Ordinal: 9, MoRef: "vm-77777"})
		case 3:
			s.Standby = append(s.Standby, v1alpha1.StandbyMember{Name: "web-8", Ordinal: 8, MoRef: "vm-88888"})
		case 4:
			s.Disks = append(s.Disks, v1alpha1.PersistentDisk{Name: "data", Ordinal: 1, ID: "no-such-disk"})
		case 5:
			s.VCenterUUID = "another"
		case 6:
			file.Spec.Template = fmt.Sprintf("golden/item-%d", rng.IntN(1000))
		case 7:
			file.Spec.Template = fmt.Sprintf("none-%d", rng.IntN(1000))
		case 8:
			file.Spec.Adopt = []string{legacy + "/db-a", "vm-12345"}
		case 9:
			file.Spec.Placement.Folder = fmt.Sprintf("elsewhere-%d", rng.IntN(1000))
		case 10:
			file.Spec.Placement.AntiAffinity = v1alpha1.AntiAffinityRequired
		case 11:
			replicas := rng.Int32N(20)
			file.Spec.Replicas = &replicas
		case 12:
			file.UID = types.UID([]string{"", "uid-other", "uid-web"}[rng.IntN(3)])
		}
	}
}

func TestPreviewsAndReadersLeaveNoTrace(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		r.legacyVMs("db-a")
		g := r.serve(adopting).group("web", 3)
		up(t, g)
		r.steady(g, time.Minute)
		was, members := g.Status, refs(r.members())
		same := func(after string) {
			t.Helper()
			a, err := g.Sync(within(t))
			if err != nil || a.Status.Phase != v1alpha1.PhaseRunning || !reflect.DeepEqual(a.Status, was) {
				t.Fatalf("after %s: %v, %s %q\nwas %+v\nis  %+v", after, err, a.Status.Phase, a.Status.LastMessage, was, a.Status)
			}
		}
		rng := rand.New(rand.NewPCG(32, 3))
		for n := range 150 {
			file := g.VmGroup.DeepCopy()
			scribble(rng, file)
			code, answer := ask(t, g, "/plan", file, rng.IntN(4) == 0 && file.UID != "")
			if code == http.StatusInternalServerError {
				t.Fatalf("a preview of scribbled fields is answered 500: %s", answer)
			}
			for _, path := range []string{"/groups", "/groups/default/web", "/sd?port=9100", "/slots"} {
				if code, answer := ask(t, g, path, nil, false); code != http.StatusOK {
					t.Fatalf("%s: %d %s; want %d", path, code, answer, http.StatusOK)
				}
			}
			if n%5 == 0 {
				time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
				text, _ := json.Marshal(file)
				same(string(text))
			}
		}
		r.steady(g, 10*time.Minute, "CloneVM_Task", "Destroy_Task", "ReconfigVM_Task", "PowerOnVM_Task", "PowerOffVM_Task")
		same("all")
		if now := refs(r.members()); !reflect.DeepEqual(now, members) {
			t.Errorf("members were %v, and are %v", members, now)
		}
	})
}

// A preview reads from vCenter only what its first steps need, once, whatever its file contains.
func TestNoFileMultipliesThePreviewsCallsOfVCenter(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		r.legacyVMs("db-a")
		g := r.serve(adopting).group("web", 2)
		up(t, g)
		calls := func(file *v1alpha1.VmGroup) (n int) {
			before := r.Calls()
			ask(t, g, "/plan", file, false)
			time.Sleep(20 * time.Second)
			for method, now := range r.Calls() {
				if method != "WaitForUpdatesEx" {
					n += now - before[method]
				}
			}
			return n
		}
		file := g.VmGroup.DeepCopy()
		plain := calls(file)
		file.Status.Members = append(file.Status.Members, strangers(5000)...)
		for i := range 2000 {
			file.Status.Quarantined = append(file.Status.Quarantined, v1alpha1.Quarantined{Name: "q", MoRef: fmt.Sprintf("vm-8%05d", i)})
			file.Status.Standby = append(file.Status.Standby, v1alpha1.StandbyMember{Name: "s", MoRef: fmt.Sprintf("vm-7%05d", i)})
		}
		if n := calls(file); n > plain+10 {
			t.Errorf("%d calls for a file with strangers, %d for the group's own; want at most %d", n, plain, plain+10)
		}
		file = g.VmGroup.DeepCopy()
		for i := range 500 {
			file.Spec.Adopt = append(file.Spec.Adopt, fmt.Sprintf("vm-6%05d", i))
		}
		file.Spec.Adopt = append(file.Spec.Adopt, legacy+"/db-a")
		if n := calls(file); n > plain+40 {
			t.Errorf("%d calls for a file that adopts, %d for the group's own; want at most %d", n, plain, plain+40)
		}
	})
}
