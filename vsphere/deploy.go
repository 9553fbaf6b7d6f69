package vsphere

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	rest "github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// deployments deploys OVFs of content libraries as templates into the root folder: once for each version, for all groups. Only the server's
// settings decide how, so it does not matter which group names an item first. The template's name is the lock, as for clones: of two
// replicas that deploy at once, vCenter refuses one, and that replica finds the other's VM.
//
// The server stores nothing. The notes and the record of the object that has the template's name decide what to do with it:
//
//	a template with the record                         use it
//	a VM with the server's notes, and a running task   wait: a process deploys it
//	a VM with the server's notes, and no task          wait abandonedAfter for the process that deployed it; then destroy and deploy it again
//	the same with the record                           after that time, convert it: it is complete, or an operator converted it to a VM
//	anything else                                      leave it alone
type deployments struct {
	calls

	mu   sync.Mutex
	left map[string]time.Time // since when an unfinished VM has had no task, by moRef
}

// abandonedAfter is how long a process may take after a deployment for the rest: a reconfiguration, and the conversion to a template.
const abandonedAfter = 5 * time.Minute

// deployedRecord names the item that a template was deployed from, and the cluster of the server, for people.
type deployedRecord struct {
	Item    string `json:"item"`
	Version string `json:"version"`
	Cluster string `json:"cluster,omitempty"`
}

// Deployed is the property with the record of a template that a server deployed from an OVF.
func Deployed(record *string) session.Property { return session.Option(library.DeployedKey, record) }

// deployedNotes returns the notes that a VM has from the beginning of its deployment.
func deployedNotes(ovf *library.OVF) string {
	return fmt.Sprintf("Version %s of the content library's item %s (%s), deployed by vmgroup as a template for its clones.", ovf.Version, ovf.Name, ovf.ID)
}

// Deployed implements library.Deployer.
func (d *deployments) Deployed(ctx context.Context, ovf *library.OVF) (string, error) {
	at, err := d.settings()
	if err != nil {
		return "", err
	}
	found, finished, err := d.find(ctx, at, ovf)
	if err != nil || !finished {
		return "", err
	}
	return found.Value, nil
}

// find returns the object that has the template's name, and whether it is a finished template; the zero reference if there is none.
func (d *deployments) find(ctx context.Context, at *inventory.Settings, ovf *library.OVF) (found types.ManagedObjectReference, finished bool, err error) {
	name := ovf.TemplateName()
	if found, err = d.Child(ctx, at.Root, name); err != nil || found.Value == "" {
		return found, false, err
	}
	var text, notes string
	var template bool
	var power types.VirtualMachinePowerState
	if found.Type == session.VMType {
		err = d.Call(ctx, func(ctx context.Context, s *session.Session) error {
			_, err := session.ReadProps(ctx, s, found, session.To("config.template", &template), session.To("config.annotation", &notes),
				session.To("runtime.powerState", &power), Deployed(&text))
			return err
		})
	}
	if vcfault.MissingObject(err) == found { // an operator removed it, or vCenter gave up the deployment
		return types.ManagedObjectReference{}, false, nil
	}
	if err != nil {
		return found, false, err
	}
	var record deployedRecord
	ours := text != "" && json.Unmarshal([]byte(text), &record) == nil && record.Item == ovf.ID && record.Version == ovf.Version
	switch {
	case ours && template:
		return found, true, nil
	case template || power != types.VirtualMachinePowerStatePoweredOff || notes != deployedNotes(ovf):
		return found, false, vcfault.ForOperator(vcfault.ReasonNameConflict, "The name %s in %s, of the template of the content library's item %q, is taken by something else: rename, move or remove it.", name, at.RootPath, ovf.Name)
	}
	return found, false, nil
}

// CreateRoot implements library.Deployer: looking up the settings again creates the root folder.
func (d *deployments) CreateRoot(ctx context.Context) error {
	_, err := d.reloadSettings(ctx)
	return err
}

// Examine implements library.Deployer.
func (d *deployments) Examine(ctx context.Context, ovf *library.OVF) error {
	at, err := d.settings()
	if err == nil {
		_, err = d.specOf(ctx, at, ovf)
	}
	return err
}

// specOf returns the specification for deploying an OVF: with thin disks on the datastore of the settings, or, if they name none, where vCenter
// puts them; with each adapter on the network that the OVF names, or, if the pool's hosts have no such network, on that of the settings; and, if
// the cluster has no DRS, on a host that has the datastore and the networks.
func (d *deployments) specOf(ctx context.Context, at *inventory.Settings, ovf *library.OVF) (vcenter.Deploy, error) {
	how := vcenter.Deploy{
		DeploymentSpec: vcenter.DeploymentSpec{Name: ovf.TemplateName(), Annotation: deployedNotes(ovf), StorageProvisioning: string(types.OvfCreateImportSpecParamsDiskProvisioningTypeThin)},
		Target:         vcenter.Target{ResourcePoolID: at.Pool.Value, FolderID: at.Root.Value},
	}
	if err := d.fillHost(ctx, at, ovf, nil, &how); err != nil {
		return how, err
	}
	var needs vcenter.FilterResponse
	err := d.rest(ctx, func(ctx context.Context, rs *session.RESTSession) (err error) {
		needs, err = vcenter.NewManager(rs.Client).FilterLibraryItem(ctx, ovf.ID, vcenter.FilterRequest{Target: how.Target})
		return err
	})
	if err != nil {
		return how, err
	}
	if len(needs.EULAs) > 0 && !d.cfg.AcceptEULAs {
		return how, vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable,
			"The content library's item %q has %d end-user license agreements: read them in vCenter, and start the server with --accept-eulas if you accept those of all items that groups name.", ovf.Name, len(needs.EULAs))
	}
	how.AcceptAllEULA = len(needs.EULAs) > 0
	var networks []types.ManagedObjectReference
	for _, name := range needs.Networks {
		to, err := d.networkFor(ctx, at, ovf, name)
		if err != nil {
			return how, err
		}
		networks = append(networks, to)
		how.NetworkMappings = append(how.NetworkMappings, vcenter.NetworkMapping{Key: name, Value: to.Value})
	}
	if err := d.fillHost(ctx, at, ovf, networks, &how); err != nil {
		return how, err
	}
	if at.Datastore == nil {
		return how, nil
	}
	how.DefaultDatastoreID = at.Datastore.Value
	return how, d.hasRoom(ctx, at, ovf, needs.AdditionalParams)
}

// fillHost chooses a host with those networks for a deployment into a cluster without DRS, as for clones. The filter call needs the host, too.
// [doc] vcenter/ovf/library-item, DeploymentTarget.host_id: if unset, "the server will automatically select a target host from the resource pool
// if [it] is a stand-alone host or a cluster with Distributed Resource Scheduling (DRS) enabled".
func (d *deployments) fillHost(ctx context.Context, at *inventory.Settings, ovf *library.OVF, networks []types.ManagedObjectReference, how *vcenter.Deploy) error {
	in, err := d.ownDatacenter()
	if err != nil {
		return err
	}
	return d.Call(ctx, func(ctx context.Context, s *session.Session) error {
		c, err := d.lookups.computesOf(ctx, s, in)
		if err != nil {
			return err
		}
		owner := c.Owner[at.Pool]
		cluster := d.inventory.WithoutDRS(owner.Value)
		if cluster == "" {
			return nil
		}
		hosts, err := hosts.Read(ctx, s, owner)
		if err != nil {
			return err
		}
		host := d.capacity.Choose(hosts, nil, at.Datastore, networks)
		if host == nil {
			return vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable,
				"The content library's item %q needs a host for its template, because the cluster %s has no DRS, and no connected host outside maintenance mode has both its networks and the server's datastore: connect one, or turn on DRS.", ovf.Name, cluster)
		}
		how.HostID = host.Value
		return nil
	})
}

// networkFor finds the network for the adapters of an OVF that are on the network of that name.
func (d *deployments) networkFor(ctx context.Context, at *inventory.Settings, ovf *library.OVF, name string) (types.ManagedObjectReference, error) {
	in, err := d.ownDatacenter()
	if err != nil {
		return types.ManagedObjectReference{}, err
	}
	found, err := d.networkAt(ctx, in, at.Pool, name, "", nil)
	if why := vcfault.Classify("", err); why != nil && why.NeedsOperator {
		if d.cfg.LibraryNetwork == "" {
			return found.Ref, vcfault.ForOperator(why.Reason,
				"The content library's item %q has adapters on a network %q, which the hosts of the server's pool don't have: start the server with --library-network, the network for these (members with spec.networks have others), or create that one.", ovf.Name, name)
		}
		found, err = d.networkAt(ctx, in, at.Pool, d.cfg.LibraryNetwork, "", nil)
	}
	return found.Ref, err
}

// hasRoom checks that the datastore of the settings is usable and has space, before vCenter copies disks to it.
func (d *deployments) hasRoom(ctx context.Context, at *inventory.Settings, ovf *library.OVF, params []vcenter.AdditionalParams) error {
	var state *DatastoreState
	err := d.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		state, err = ReadDatastore(ctx, s, at)
		return err
	})
	if err != nil || state == nil {
		return err
	}
	if !state.Usable {
		return vcfault.ForOperator(vcfault.ReasonDatastoreInaccessible, "The datastore %s, which the content library's item %q is to be deployed on, is in maintenance mode or inaccessible.", state.Path, ovf.Name)
	}
	for _, p := range params {
		if p.Type == vcenter.TypeSizeParams && p.ApproximateSparseDeploymentSize > state.Free {
			return vcfault.ForOperator(vcfault.ReasonDatastoreFull, "The datastore %s has too little space for the content library's item %q, which needs about %d MiB: free space, or set another --datastore.",
				state.Path, ovf.Name, p.ApproximateSparseDeploymentSize>>20)
		}
	}
	return nil
}

// Deploy implements library.Deployer.
func (d *deployments) Deploy(ctx context.Context, ovf *library.OVF) error {
	at, err := d.settings()
	if err != nil {
		return err
	}
	found, finished, err := d.find(ctx, at, ovf)
	if err != nil || finished {
		return err
	}
	if found.Value != "" {
		return d.resume(ctx, ovf, found)
	}
	if !ovf.Cached {
		return d.fetch(ctx, ovf)
	}
	how, err := d.specOf(ctx, at, ovf)
	if err != nil {
		return err
	}
	vm, err := d.start(ctx, ovf, how)
	if err != nil {
		if other, _, lookErr := d.find(ctx, at, ovf); lookErr == nil && other.Value != "" {
			return vcfault.ForRetry(vcfault.ReasonLibraryReading, "The content library's item %q is being deployed by another process.", ovf.Name)
		}
		return err
	}
	return d.finish(ctx, ovf, vm)
}

// start deploys an OVF, and waits for the VM. If the deployment fails or the connection is closed, vCenter removes the VM.
func (d *deployments) start(ctx context.Context, ovf *library.OVF, how vcenter.Deploy) (vm types.ManagedObjectReference, err error) {
	d.log.Info().Str("item", ovf.Name).Str("version", ovf.Version).Str("template", how.Name).Msg("deploying an item of a content library")
	began := time.Now()
	err = d.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
		made, err := vcenter.NewManager(rs.Client).DeployLibraryItem(ctx, ovf.ID, how)
		if refused, is := errors.AsType[*vcenter.DeploymentError](err); is {
			return vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable, "vCenter cannot deploy the content library's item %q: %s", ovf.Name, vcfault.Steady(strings.TrimPrefix(refused.Error(), "deploy error: ")))
		}
		if err == nil {
			vm = *made
		}
		return err
	})
	if err == nil && vm.Type != session.VMType {
		err = vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable, "The content library's item %q is a vApp of several VMs, which cannot be cloned: remove %s (%s), and name another template.", ovf.Name, how.Name, vm.Value)
	}
	if err == nil {
		d.log.Info().Str("item", ovf.Name).Str("template", how.Name).Dur("durationSeconds", time.Since(began)).Msg("deployed an item of a content library")
	}
	return vm, err
}

// finish converts a deployed VM to the template. It writes the record first, so that a template never lacks it.
func (d *deployments) finish(ctx context.Context, ovf *library.OVF, vm types.ManagedObjectReference) error {
	record, err := json.Marshal(deployedRecord{ovf.ID, ovf.Version, d.cfg.ClusterID})
	if err != nil {
		return err
	}
	if err = d.reconfigure(ctx, vm, types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: library.DeployedKey, Value: string(record)}}}); err != nil {
		return err
	}
	err = d.Call(ctx, func(ctx context.Context, s *session.Session) error {
		_, err := methods.MarkAsTemplate(ctx, s.Vim, &types.MarkAsTemplate{This: vm})
		return err
	})
	if err != nil {
		return err
	}
	return d.reader.Read(ctx, vm)
}

// resume waits for the process that deploys an unfinished VM, which may have been killed. After abandonedAfter without a task, resume finishes the
// VM if it is complete, and otherwise destroys it.
func (d *deployments) resume(ctx context.Context, ovf *library.OVF, vm types.ManagedObjectReference) error {
	waiting := vcfault.ForRetry(vcfault.ReasonLibraryReading, "The content library's item %q is being deployed by another process.", ovf.Name)
	var running, complete bool
	err := d.Call(ctx, func(ctx context.Context, s *session.Session) error {
		var record string
		if _, err := session.ReadProps(ctx, s, vm, Deployed(&record)); err != nil {
			return err
		}
		complete = record != ""
		all, err := tasks.Recent(ctx, s)
		running = slices.ContainsFunc(all, func(t types.TaskInfo) bool {
			return tasks.Unfinished(&t) && (t.Entity != nil && *t.Entity == vm || strings.Contains(strings.ToLower(t.DescriptionId), "importvapp"))
		})
		return err
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	since, known := d.left[vm.Value]
	if running || !known {
		since = time.Now()
	}
	d.left[vm.Value] = since
	abandoned := time.Since(since) >= abandonedAfter
	if abandoned {
		delete(d.left, vm.Value) // if an operator converts the template to a VM again, the time begins again
	}
	d.mu.Unlock()
	if !abandoned {
		return waiting
	}
	if complete {
		return d.finish(ctx, ovf, vm)
	}
	d.log.Warn().Str("item", ovf.Name).Str("moRef", vm.Value).Msg("destroying what is left of the deployment of a content library's item")
	_, err = d.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.Destroy_Task(ctx, s.Vim, &types.Destroy_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil {
		return err
	}
	return waiting
}

// fetch makes vCenter copy the files of a subscribed library's item. The item is deployed at a later call.
func (d *deployments) fetch(ctx context.Context, ovf *library.OVF) error {
	err := d.rest(ctx, func(ctx context.Context, rs *session.RESTSession) error {
		return rest.NewManager(rs.Client).SyncLibraryItem(ctx, &rest.Item{ID: ovf.ID}, true)
	})
	if err != nil {
		return err
	}
	return vcfault.ForRetry(vcfault.ReasonLibraryReading, "vCenter synchronizes the content library's item %q; then it is deployed.", ovf.Name)
}
