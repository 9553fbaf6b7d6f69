package recorded

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// said has the decoded answers of a recording, in their order.
type said struct {
	objects []types.ObjectContent // of reads
	pages   []types.RetrieveResult
	updates []types.UpdateSet
	events  []types.BaseEvent
	kinds   []string // all kinds of tasks of a vCenter 8.0.1
}

// beliefs are the rows of docs/vcenter.md that any recording of a vCenter can confirm or contradict, by the row's beginning. Each function returns
// the number of confirmations in a recording, and a contradiction, "" if there is none.
var beliefs = map[string]func(said) (confirmed int, contradicted string){
	"calls that task `VirtualMachine.clone`": func(s said) (n int, wrong string) {
		for _, o := range s.objects {
			kind, is := valueOf[string](o, "info.descriptionId")
			if is && !slices.Contains(s.kinds, kind) {
				wrong = kind + " is the kind of a task"
			}
			if is && kind == "VirtualMachine.clone" {
				n++
			}
		}
		return n, wrong
	},
	"answers RetrievePropertiesEx in pages": func(s said) (n int, wrong string) {
		for _, p := range s.pages {
			if p.Token != "" && len(p.Objects) == 0 {
				wrong = "an empty page is not the last"
			}
			if p.Token != "" {
				n++
			}
		}
		return n, wrong
	},
	"reports with WaitForUpdatesEx which objects entered": func(s said) (n int, wrong string) {
		for _, u := range s.updates {
			for _, f := range u.FilterSet {
				for _, o := range f.ObjectSet {
					if o.Kind == types.ObjectUpdateKindLeave && len(o.ChangeSet) > 0 {
						wrong = o.Obj.Value + " left, and has properties"
					}
					n++
				}
			}
		}
		return n, wrong
	},
	"gives the `VmRemovedEvent` of a VM": func(s said) (n int, wrong string) {
		tasks := map[int32]bool{}
		for _, e := range s.events {
			if task, is := e.(*types.TaskEvent); is {
				tasks[task.ChainId] = true
			}
		}
		for _, e := range s.events {
			if removed, is := e.(*types.VmRemovedEvent); is {
				if removed.ChainId == 0 {
					wrong = fmt.Sprintf("event %d has no chain", removed.Key)
				}
				if tasks[removed.ChainId] {
					n++
				}
			}
		}
		return n, wrong
	},
	"sets runtime.bootTime at power-on": func(s said) (n int, wrong string) {
		for _, o := range s.objects {
			power, is := valueOf[types.VirtualMachinePowerState](o, "runtime.powerState")
			_, booted := valueOf[any](o, "runtime.bootTime")
			switch {
			case is && booted && power == types.VirtualMachinePowerStatePoweredOn:
				n++
			case is && booted && power == types.VirtualMachinePowerStatePoweredOff:
				wrong = o.Obj.Value + " is off, and has a bootTime"
			}
		}
		return n, wrong
	},
	"refuses a reconfigure whose changeVersion": func(s said) (n int, wrong string) {
		for _, o := range s.objects {
			if fault, is := valueOf[types.LocalizedMethodFault](o, "info.error"); is {
				if _, is := fault.Fault.(*types.ConcurrentAccess); is {
					n++
				}
			}
		}
		return n, ""
	},
}

func valueOf[T any](o types.ObjectContent, path string) (value T, is bool) {
	for _, p := range o.PropSet {
		if p.Name == path {
			value, is = p.Val.(T)
		}
	}
	return value, is
}

// Rows are the beginnings of the rows of docs/vcenter.md that a recording can confirm.
func Rows() []string { return slices.Sorted(maps.Keys(beliefs)) }

// Confirmed compares a recording with the beliefs. It returns the number of confirmations of each, by the row's beginning, and the contradictions.
func Confirmed(t testing.TB, all []Exchange) (confirmed map[string]int, contradicted []string) {
	t.Helper()
	s := said{kinds: TaskKinds(t)}
	for i := range all {
		x := &all[i]
		if x.Status != 200 {
			continue
		}
		var err error
		switch x.Name {
		case "RetrieveProperties":
			var body methods.RetrievePropertiesBody
			if err = x.Decode(&body); err == nil {
				s.objects = append(s.objects, body.Res.Returnval...)
			}
		case "RetrievePropertiesEx":
			var body methods.RetrievePropertiesExBody
			if err = x.Decode(&body); err == nil && body.Res.Returnval != nil {
				s.objects, s.pages = append(s.objects, body.Res.Returnval.Objects...), append(s.pages, *body.Res.Returnval)
			}
		case "WaitForUpdatesEx":
			var body methods.WaitForUpdatesExBody
			if err = x.Decode(&body); err == nil && body.Res.Returnval != nil {
				s.updates = append(s.updates, *body.Res.Returnval)
			}
		case "ReadNextEvents":
			var body methods.ReadNextEventsBody
			if err = x.Decode(&body); err == nil {
				s.events = append(s.events, body.Res.Returnval...)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	confirmed = map[string]int{}
	for row, holds := range beliefs {
		n, wrong := holds(s)
		if confirmed[row] = n; wrong != "" {
			contradicted = append(contradicted, row+": "+wrong)
		}
	}
	slices.Sort(contradicted)
	return confirmed, contradicted
}
