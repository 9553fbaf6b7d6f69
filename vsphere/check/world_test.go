package check

import (
	"maps"
	"testing"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// world is a vCenter that is looked at.
type world struct {
	*vctest.World
	t testing.TB
}

// newWorld is one with a template "ubuntu" and an unmanaged VM.
func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{vctest.New(t), t}
}

func newWorldOf(t testing.TB, c vcsim.Config) *world {
	t.Helper()
	return &world{vctest.Of(t, c), t}
}

func newRealWorld(t testing.TB, c vcsim.Config) *world {
	t.Helper()
	return &world{vctest.Real(t, c), t}
}

func (w *world) must(err error) {
	w.t.Helper()
	w.Must(err)
}

func (w *world) config() vsphere.Config {
	cfg := vsphere.Config{Config: session.Config{Host: w.URL().Host, User: "vmgroup", Password: "pass", Insecure: true, Log: zerolog.Nop()},
		Selection: inventory.Selection{ClusterID: "test"}}
	if w.Network != nil {
		cfg.Dial, cfg.Through = w.Network.DialContext, w.Direct // HTTP and XML cost three times as much
	}
	return cfg
}

// look is a VM as it is now.
func (w *world) look(name string) vcsim.VM {
	for _, vm := range w.VMs() {
		if vm.Name == name {
			vm.ExtraConfig = maps.Clone(vm.ExtraConfig)
			return vm
		}
	}
	return vcsim.VM{}
}
