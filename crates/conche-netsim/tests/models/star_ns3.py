"""Throughput of ns-3's lr-wpan module in the saturated stars of tests/validation/radio/star.rs.

    python3 -m venv venv && venv/bin/pip install --only-binary cppyy-cling ns3==3.44.post0
    venv/bin/python star_ns3.py

n senders on a circle of 10 m always have a packet of 100 octets for the sink in the middle. Path
loss is log-distance with exponent 3 and 46.67 dB at 1 m; all else is ns-3's default. Prints packets
acknowledged per second or, without acknowledgments, received per second.
"""

import cppyy
from ns import ns

cppyy.cppdef(r"""
#include <cmath>
using namespace ns3;
using namespace ns3::lrwpan;

struct Star {
    std::vector<Ptr<LrWpanNetDevice>> devices;
    bool acknowledged;
    uint64_t succeeded = 0, received = 0;

    void Request(uint32_t i) {
        McpsDataRequestParams request;
        request.m_dstPanId = 0;
        request.m_srcAddrMode = SHORT_ADDR;
        request.m_dstAddrMode = SHORT_ADDR;
        request.m_dstAddr = Mac16Address("00:01");
        request.m_msduHandle = 0;
        request.m_txOptions = acknowledged ? TX_OPTION_ACK : 0;
        devices[i]->GetMac()->McpsDataRequest(request, Create<Packet>(100));
    }

    double Run(uint32_t senders, double seconds, bool ack, uint32_t run) {
        RngSeedManager::SetSeed(1);
        RngSeedManager::SetRun(run);
        acknowledged = ack;
        auto channel = CreateObject<SingleModelSpectrumChannel>();
        auto loss = CreateObject<LogDistancePropagationLossModel>();
        loss->SetAttribute("Exponent", DoubleValue(3.0));
        loss->SetAttribute("ReferenceLoss", DoubleValue(46.67));
        channel->AddPropagationLossModel(loss);
        channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
        for (uint32_t i = 0; i <= senders; i++) {
            auto node = CreateObject<Node>();
            auto device = CreateObject<LrWpanNetDevice>();
            device->SetAddress(Mac16Address((uint16_t)(i + 1)));
            device->SetChannel(channel);
            node->AddDevice(device);
            auto mobility = CreateObject<ConstantPositionMobilityModel>();
            double angle = 2 * M_PI * (i - 1) / senders;
            mobility->SetPosition(i == 0 ? Vector(0, 0, 0) : Vector(10 * cos(angle), 10 * sin(angle), 0));
            device->GetPhy()->SetMobility(mobility);
            devices.push_back(device);
            if (i == 0) {
                McpsDataIndicationCallback indication([this](McpsDataIndicationParams, Ptr<Packet>) { received++; });
                device->GetMac()->SetMcpsDataIndicationCallback(indication);
            } else {
                McpsDataConfirmCallback confirm([this, i](McpsDataConfirmParams outcome) {
                    succeeded += outcome.m_status == MacStatus::SUCCESS;
                    Request(i);
                });
                device->GetMac()->SetMcpsDataConfirmCallback(confirm);
            }
        }
        auto start = CreateObject<UniformRandomVariable>();
        for (uint32_t i = 1; i <= senders; i++) {
            Simulator::ScheduleWithContext(i, Seconds(start->GetValue(0, 0.1)), [this, i]() { Request(i); });
        }
        Simulator::Stop(Seconds(seconds));
        Simulator::Run();
        Simulator::Destroy();
        return (ack ? succeeded : received) / seconds;
    }
};
""")

SECONDS = 100
for acknowledged, senders in [(True, (2, 5, 10, 20, 50)), (False, (2, 10))]:
    for number in senders:
        rate = cppyy.gbl.Star().Run(number, SECONDS, acknowledged, 1)
        print(f"{number:3} senders, {'' if acknowledged else 'no '}acknowledgments: {rate:.1f}/s", flush=True)
