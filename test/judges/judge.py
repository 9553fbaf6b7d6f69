# Runs Debian's cloud-init on a member's guestinfo as at a first boot, and prints the result as JSON. cloud-init's own code does
# everything: it takes the data from the environment (VMX_GUESTINFO, see its DataSourceVMware), renders and merges the user data, and
# each of its network renderers writes its files; netplan generate reads those of the netplan renderer. It runs as root in a
# directory that contains only Debian's packages.
import copy
import json
import os
import shutil
import socket
import subprocess
import sys

from cloudinit import sources, stages, version
from cloudinit.distros import debian, rhel
from cloudinit.net import network_state, renderers

WORK, NETPLAN, UNITS = "/tmp/judge", "/etc/netplan", "/run/systemd/network"
for place in WORK, NETPLAN, UNITS:
    shutil.rmtree(place, ignore_errors=True)
os.makedirs(WORK)
os.makedirs(NETPLAN)


def files(root):
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            with open(path) as f:
                found[os.path.relpath(path, root)] = f.read()
    return found


def render(name, settings, target):
    state = network_state.parse_net_config_data(copy.deepcopy(config))
    renderers.NAME_TO_RENDERER[name].Renderer(settings).render_network_state(state, target=target)


with open("/etc/cloud/cloud.cfg.d/99_judge.cfg", "w") as f:
    paths = {"cloud_dir": WORK + "/cloud", "run_dir": WORK + "/run"}
    json.dump({"datasource_list": ["VMware"], "system_info": {"paths": paths}}, f)

init = stages.Init(ds_deps=[sources.DEP_FILESYSTEM])
init.read_cfg()
init.initialize()
init.fetch(existing="check")
init.instancify()
config, source = init._find_networking_config()
hostname = init.datasource.get_hostname()
hostname = getattr(hostname, "hostname", hostname)
socket.sethostname(hostname)
init.setup_datasource()
init.update()
init.consume_data()

rendered = {}
for name, settings in {
    "eni": debian.Distro.renderer_configs["eni"],
    "network-manager": {},
    "networkd": {},
    "sysconfig": rhel.Distro.renderer_configs["sysconfig"],
}.items():
    target = os.path.join(WORK, name)
    os.makedirs(target)
    render(name, settings, target)
    rendered[name] = files(target)

render("netplan", {}, None)  # where netplan's own library writes it, it takes no target
generate = subprocess.run(["netplan", "generate"], capture_output=True, text=True)
rendered["netplan"] = files(UNITS)

with open(init.paths.get_ipath_cur("cloud_config")) as f:
    cloud_config = f.read()
json.dump({
    "version": version.version_string(),
    "source": getattr(source, "value", str(source)),
    "hostname": hostname,
    "instanceID": init.datasource.get_instance_id(),
    "cloudConfig": cloud_config,
    "rendered": rendered,
    "netplanStatus": generate.returncode,
    "netplanSaid": generate.stderr,
}, sys.stdout, indent=1)
