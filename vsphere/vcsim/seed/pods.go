package seed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// podDatastores is the number of datastores in each datastore cluster.
const podDatastores = 2

// fillPods creates the datastores of each datastore cluster, on all hosts of its datacenter.
func fillPods(w *world.World) error {
	ctx := context.Background()
	c, err := vim25.NewClient(ctx, w.Service)
	if err != nil {
		return fmt.Errorf("fill the datastore clusters: %w", err)
	}
	for _, pod := range w.Objects.All("StoragePod") {
		if err := fillPod(w, ctx, c, pod.(*simulator.StoragePod)); err != nil {
			return fmt.Errorf("fill the datastore cluster %s: %w", pod.Entity().Name, err)
		}
	}
	return nil
}

func fillPod(w *world.World, ctx context.Context, c *vim25.Client, pod *simulator.StoragePod) error {
	dc := w.Objects.Get(*w.Objects.Get(*pod.Parent).(mo.Entity).Entity().Parent).(mo.Entity).Entity().Name
	hosts, err := find.NewFinder(c).HostSystemList(ctx, "/"+dc+"/host/*/*")
	if err != nil {
		return err
	}
	var made []types.ManagedObjectReference
	for i := range podDatastores {
		name := fmt.Sprintf("%s_DS%d", pod.Name, i)
		dir := filepath.Join(home(w), dc+"-"+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		for n, host := range hosts {
			system, err := host.ConfigManager().DatastoreSystem(ctx)
			if err != nil {
				return err
			}
			ds, err := system.CreateLocalDatastore(ctx, name, dir)
			if err != nil {
				return err
			}
			if n == 0 { // the simulator returns none for the other hosts
				made = append(made, ds.Reference())
			}
		}
	}
	// All at once, because each move makes the simulator count the existing contents again.
	task, err := object.NewFolder(c, pod.Self).MoveInto(ctx, made)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// home returns the directory of the simulator's files, which Drain removes.
func home(w *world.World) string {
	for _, o := range w.Objects.OptionManager().Setting {
		if o.GetOptionValue().Key == "vcsim.home" {
			return o.GetOptionValue().Value.(string)
		}
	}
	return os.TempDir()
}
