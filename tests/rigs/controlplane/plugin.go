package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const pluginUsage = `usage: controlplane device-plugin --resource NAME [--socket FILE] [--directory DIR] [--devices N] [--prefix GPU-] [--slow]

A device plugin whose devices do what the lines on stdin say. It answers each line on stdout:

  count N            from now on it has the devices PREFIX0 to PREFIX(N-1), all healthy
  unhealthy ID       and: healthy ID
  flip ID SECONDS    unhealthy now, and healthy again after so long
  hang               Allocate and the list of devices say nothing more; the socket still accepts
  register           once more, as after the kubelet began anew
  sockets            the path that it listens on

It registers at its start, and ends with stdin. With --slow each byte that it sends takes 0.9 s, and it does not wait for
the kubelet's answer.`

// devicePlugin serves one resource. Each change goes to every kubelet that listens.
type devicePlugin struct {
	api.UnimplementedDevicePluginServer
	resource, prefix, socket, directory string

	lock    sync.Mutex
	devices map[string]string
	hangs   bool
	changed chan struct{} // closed at each change
}

func runDevicePlugin(words []string) error {
	flags := flag.NewFlagSet("device-plugin", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprintln(os.Stderr, pluginUsage) }
	resource := flags.String("resource", "", "")
	socket := flags.String("socket", "rig.sock", "")
	directory := flags.String("directory", api.DevicePluginPath, "")
	count := flags.Int("devices", 0, "")
	prefix := flags.String("prefix", "GPU-", "")
	slow := flags.Bool("slow", false, "")
	if err := flags.Parse(words); err != nil {
		return err
	}
	if *resource == "" || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("device-plugin: --resource is wanted, and nothing beside the flags")
	}
	plugin := &devicePlugin{
		resource: *resource, prefix: *prefix, directory: *directory,
		socket:  filepath.Join(*directory, *socket),
		changed: make(chan struct{}),
	}
	plugin.count(*count)
	if err := os.Remove(plugin.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", plugin.socket)
	if err != nil {
		return err
	}
	if *slow {
		listener = slowListener{listener}
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, plugin)
	go func() { _ = server.Serve(listener) }()
	if *slow { // the kubelet answers once the plugin has answered it
		go func() { _ = plugin.register() }()
	} else if err := plugin.register(); err != nil {
		return err
	}
	fmt.Println("registered")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := plugin.obey(strings.Fields(lines.Text())); err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println("done")
	}
	return nil
}

func (plugin *devicePlugin) obey(words []string) error {
	switch {
	case len(words) == 1 && words[0] == "hang":
		plugin.change(func() { plugin.hangs = true })
	case len(words) == 1 && words[0] == "register":
		return plugin.register()
	case len(words) == 1 && words[0] == "sockets":
		fmt.Println(plugin.socket)
	case len(words) == 2 && words[0] == "count":
		number, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		plugin.count(number)
	case len(words) == 2 && words[0] == "unhealthy":
		return plugin.set(words[1], api.Unhealthy)
	case len(words) == 2 && words[0] == "healthy":
		return plugin.set(words[1], api.Healthy)
	case len(words) == 3 && words[0] == "flip":
		seconds, err := strconv.ParseFloat(words[2], 64)
		if err != nil {
			return err
		}
		time.AfterFunc(time.Duration(seconds*float64(time.Second)), func() { _ = plugin.set(words[1], api.Healthy) })
		return plugin.set(words[1], api.Unhealthy)
	default:
		return fmt.Errorf("unknown line %q", strings.Join(words, " "))
	}
	return nil
}

func (plugin *devicePlugin) change(how func()) {
	plugin.lock.Lock()
	defer plugin.lock.Unlock()
	how()
	close(plugin.changed)
	plugin.changed = make(chan struct{})
}

func (plugin *devicePlugin) count(number int) {
	plugin.change(func() {
		plugin.devices = map[string]string{}
		for each := range number {
			plugin.devices[fmt.Sprintf("%s%d", plugin.prefix, each)] = api.Healthy
		}
	})
}

func (plugin *devicePlugin) set(id, health string) error {
	known := false
	plugin.change(func() {
		if _, known = plugin.devices[id]; known {
			plugin.devices[id] = health
		}
	})
	if !known {
		return fmt.Errorf("no device %s", id)
	}
	return nil
}

func (plugin *devicePlugin) register() error {
	connection, err := grpc.NewClient(
		"unix://"+filepath.Join(plugin.directory, filepath.Base(api.KubeletSocket)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	timed, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	_, err = api.NewRegistrationClient(connection).Register(timed, &api.RegisterRequest{
		Version: api.Version, Endpoint: filepath.Base(plugin.socket), ResourceName: plugin.resource,
		Options: &api.DevicePluginOptions{},
	})
	return err
}

func (plugin *devicePlugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (plugin *devicePlugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	for {
		plugin.lock.Lock()
		changed, hangs := plugin.changed, plugin.hangs
		answer := &api.ListAndWatchResponse{}
		for id, health := range plugin.devices {
			answer.Devices = append(answer.Devices, &api.Device{ID: id, Health: health})
		}
		plugin.lock.Unlock()
		if !hangs {
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// Allocate tells each container its devices, and a word that no snapshot may keep.
func (plugin *devicePlugin) Allocate(asked context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	plugin.lock.Lock()
	hangs := plugin.hangs
	plugin.lock.Unlock()
	if hangs {
		<-asked.Done()
		return nil, asked.Err()
	}
	answer := &api.AllocateResponse{}
	for _, one := range request.ContainerRequests {
		envs := map[string]string{"RIG_DEVICES": strings.Join(one.DevicesIds, ","), "RIG_SECRET": "hunter2-of-the-rig"}
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{Envs: envs})
	}
	return answer, nil
}

type slowListener struct{ net.Listener }

func (listener slowListener) Accept() (net.Conn, error) {
	connection, err := listener.Listener.Accept()
	return slowConnection{connection}, err
}

type slowConnection struct{ net.Conn }

func (connection slowConnection) Write(data []byte) (int, error) {
	for sent := range data {
		time.Sleep(900 * time.Millisecond)
		if _, err := connection.Conn.Write(data[sent : sent+1]); err != nil {
			return sent, err
		}
	}
	return len(data), nil
}
