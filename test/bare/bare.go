// Package bare drives a vCenter with govmomi alone. It does the least that a program must do to create and remove VMs, and is the baseline for
// measurements of the server. It has no stamps and no status, and can't continue after a crash.
package bare

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// Fleet is a number of groups, each with a folder and a number of members. Slots is how many members are worked on at once.
type Fleet struct{ Groups, Members, Slots int }

// Login logs a client in to the vCenter.
type Login func(context.Context) (*govmomi.Client, error)

// At logs in over the network.
func At(u *url.URL) Login {
	return func(ctx context.Context) (*govmomi.Client, error) { return govmomi.NewClient(ctx, u, true) }
}

// BringUp creates the folders, clones all members from the template vm-operator-template and powers them on, while a watch on the same objects
// is open. It returns how long that took.
func (f Fleet) BringUp(ctx context.Context, login Login) (time.Duration, error) {
	return f.measure(ctx, login, func(client *govmomi.Client) error {
		finder := find.NewFinder(client.Client)
		template, err := finder.VirtualMachine(ctx, "vm-operator-template")
		if err != nil {
			return err
		}
		pool, err := finder.DefaultResourcePool(ctx)
		if err != nil {
			return err
		}
		root, err := finder.DefaultFolder(ctx)
		if err != nil {
			return err
		}
		folders := make([]*object.Folder, f.Groups)
		if err := f.each(f.Groups, func(i int) (err error) {
			folders[i], err = root.CreateFolder(ctx, fmt.Sprintf("bare-%d", i))
			return err
		}); err != nil {
			return err
		}
		ref := pool.Reference()
		return f.each(f.Groups*f.Members, func(i int) error {
			return cloneAndPowerOn(ctx, template, folders[i/f.Members], ref, fmt.Sprintf("bare-%d-%d", i/f.Members, i%f.Members))
		})
	})
}

func cloneAndPowerOn(ctx context.Context, template *object.VirtualMachine, folder *object.Folder, pool types.ManagedObjectReference, name string) error {
	task, err := template.Clone(ctx, folder, name, types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: &pool},
		Config:   &types.VirtualMachineConfigSpec{NumCPUs: 2, MemoryMB: 4096},
	})
	if err != nil {
		return err
	}
	info, err := task.WaitForResult(ctx)
	if err != nil {
		return err
	}
	return done(ctx)(object.NewVirtualMachine(template.Client(), info.Result.(types.ManagedObjectReference)).PowerOn(ctx))
}

// TakeDown powers off and destroys all members that BringUp made, and removes the folders, while a watch on the same objects is open. It
// returns how long that took.
func (f Fleet) TakeDown(ctx context.Context, login Login) (time.Duration, error) {
	return f.measure(ctx, login, func(client *govmomi.Client) error {
		finder := find.NewFinder(client.Client)
		all, err := finder.VirtualMachineList(ctx, "/*/vm/bare-*/*")
		if err != nil {
			return err
		}
		folders, err := finder.FolderList(ctx, "/*/vm/bare-*")
		if err != nil {
			return err
		}
		if err := f.each(len(all), func(i int) error {
			if err := done(ctx)(all[i].PowerOff(ctx)); err != nil {
				return err
			}
			return done(ctx)(all[i].Destroy(ctx))
		}); err != nil {
			return err
		}
		return f.each(len(folders), func(i int) error { return done(ctx)(folders[i].Destroy(ctx)) })
	})
}

// done returns a function that waits for the end of a task.
func done(ctx context.Context) func(*object.Task, error) error {
	return func(task *object.Task, err error) error {
		if err != nil {
			return err
		}
		return task.Wait(ctx)
	}
}

// each calls do for each number below n, in at most Slots goroutines at once.
func (f Fleet) each(n int, do func(int) error) error {
	work, failed := make(chan int, n), make(chan error, n)
	for i := range n {
		work <- i
	}
	close(work)
	var workers sync.WaitGroup
	for range f.Slots {
		workers.Go(func() {
			for i := range work {
				if err := do(i); err != nil {
					failed <- err
				}
			}
		})
	}
	workers.Wait()
	close(failed)
	var all []error
	for err := range failed {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// measure returns how long do takes while a watch is open.
func (f Fleet) measure(ctx context.Context, login Login, do func(*govmomi.Client) error) (time.Duration, error) {
	client, err := login(ctx)
	if err != nil {
		return 0, err
	}
	watching, end := context.WithCancel(ctx)
	defer end()
	done, err := watch(watching, login)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = do(client)
	took := time.Since(began)
	end()
	<-done
	return took, err
}

// watch opens a stream like the server's: folders traversed from the root, a few properties of each VM. vcsim's stream costs CPU
// time that a real vCenter's doesn't, so both sides of the comparison pay for one.
func watch(ctx context.Context, login Login) (done chan struct{}, err error) {
	client, err := login(ctx)
	if err != nil {
		return nil, err
	}
	collector, err := property.DefaultCollector(client.Client).Create(ctx)
	if err != nil {
		return nil, err
	}
	walk := []types.BaseSelectionSpec{&types.SelectionSpec{Name: "folder"}, &types.SelectionSpec{Name: "datacenter"}}
	spec := types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: client.ServiceContent.RootFolder, SelectSet: []types.BaseSelectionSpec{
			&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "folder"}, Type: "Folder", Path: "childEntity", SelectSet: walk},
			&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "datacenter"}, Type: "Datacenter", Path: "vmFolder", SelectSet: walk},
		}}},
		PropSet: []types.PropertySpec{
			{Type: "VirtualMachine", PathSet: []string{"name", "parent", "runtime.powerState", "runtime.connectionState", "config.changeVersion", "config.template", "guest.ipAddress"}},
			{Type: "Folder", PathSet: []string{"name", "parent"}},
		},
	}
	if _, err := collector.CreateFilter(ctx, types.CreateFilter{Spec: spec}); err != nil {
		return nil, err
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		request := types.WaitForUpdatesEx{This: collector.Reference(), Options: &types.WaitOptions{MaxWaitSeconds: types.NewInt32(20)}}
		for ctx.Err() == nil {
			response, err := methods.WaitForUpdatesEx(ctx, client.Client, &request)
			if err != nil {
				break
			}
			if response.Returnval != nil {
				request.Version = response.Returnval.Version
			}
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = collector.Destroy(end)
	}()
	return done, nil
}
